"""The vector store with the embedder for OpenAI's API: two distributions, one of which offers the other's class."""

from __future__ import annotations

import pytest

import memoranda_openai
from memoranda import HumanMemory
from memoranda.errors import EmbeddingUnavailableError
from memoranda_vector import OpenAIEmbeddings, VectorMemoryStore
from servers import model_server


def test_the_vector_store_offers_the_embedder_under_its_own_name() -> None:
    assert OpenAIEmbeddings is memoranda_openai.OpenAIEmbeddings


async def test_a_failing_batch_stores_nothing() -> None:
    with model_server() as server:
        embeddings = OpenAIEmbeddings(
            model="m", dimension=4, api_key="k", base_url=server.url, batch_size=1, max_retries=0
        )
        store = VectorMemoryStore(embeddings)
        await store.add(HumanMemory(content="before"))
        server.refuses(500)
        with pytest.raises(EmbeddingUnavailableError):
            await store.add_many([HumanMemory(content="a"), HumanMemory(content="b")])
        assert [item.content for item in await store.search()] == ["before"]
        await embeddings.aclose()
