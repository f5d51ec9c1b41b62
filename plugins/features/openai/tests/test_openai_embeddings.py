"""OpenAIEmbeddings against a real HTTP server that speaks the API."""

from __future__ import annotations

import asyncio
import logging
import socket
import traceback
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from memoranda.embeddings import Embeddings
from memoranda.errors import BadVectorError, EmbeddingError, EmbeddingUnavailableError, InputError
from memoranda_openai import OpenAIEmbeddings

KEY = "sk-a-very-secret-key"


@pytest_asyncio.fixture
async def make(server: Any) -> AsyncIterator[Any]:
    """Makes embedders for the server, and closes them."""
    made = []

    def make(**options: Any) -> OpenAIEmbeddings:
        embeddings = OpenAIEmbeddings(
            **{"model": "m", "dimension": 4, "api_key": KEY, "base_url": server.url, **options}
        )
        made.append(embeddings)
        return embeddings

    yield make
    for embeddings in made:
        await embeddings.aclose()


async def test_a_text_is_embedded_with_and_without_async(server: Any, make: Any) -> None:
    embeddings = make()
    expected = server.vector_of("banana")
    assert await embeddings.aembed("banana") == expected
    assert await asyncio.to_thread(embeddings.embed, "banana") == expected


async def test_the_request_names_the_model_and_carries_the_key(server: Any, make: Any) -> None:
    await make().aembed("banana")
    assert server.requests == [{"model": "m", "input": ["banana"], "encoding_format": "float"}]
    assert server.keys == [f"Bearer {KEY}"]


async def test_models_that_can_be_shortened_are_asked_for_the_dimension(server: Any, make: Any) -> None:
    await make(model="text-embedding-3-small").aembed("banana")
    assert server.requests[0]["dimensions"] == 4


@pytest.mark.parametrize("asynchronous", [True, False])
async def test_many_texts_go_in_batches_and_come_in_order(server: Any, make: Any, asynchronous: bool) -> None:
    embeddings = make(batch_size=3)
    texts = ["b" * number for number in range(1, 9)]
    if asynchronous:
        vectors = await embeddings.aembed_many(texts)
    else:
        vectors = await asyncio.to_thread(embeddings.embed_many, texts)
    assert vectors == [server.vector_of(text) for text in texts]
    assert sorted(len(request["input"]) for request in server.requests) == [2, 3, 3]


async def test_requests_at_once_are_bounded_over_all_calls(server: Any, make: Any) -> None:
    server.together = 3
    embeddings = make(batch_size=1, concurrency=3)
    await asyncio.gather(*(embeddings.aembed_many(["a", "b", "c"]) for _ in range(4)))
    assert len(server.requests) == 12
    assert server.most_at_once == 3


async def test_empty_texts_are_zero_and_not_sent(server: Any, make: Any) -> None:
    assert await make().aembed_many(["", "a", " \n"]) == [[0.0] * 4, server.vector_of("a"), [0.0] * 4]
    assert [request["input"] for request in server.requests] == [["a"]]


async def test_no_texts_need_no_request(server: Any, make: Any) -> None:
    assert await make().aembed_many([]) == []
    assert server.requests == []


@pytest.mark.parametrize("status", [429, 500, 503])
async def test_what_passes_is_tried_again(server: Any, make: Any, status: int) -> None:
    server.refuses(status, times=2)
    assert await make(max_retries=3).aembed("a") == server.vector_of("a")
    assert len(server.requests) == 3


@pytest.mark.parametrize("status", [429, 500])
async def test_what_does_not_pass_is_unavailable(server: Any, make: Any, status: int) -> None:
    server.refuses(status, times=9)
    with pytest.raises(EmbeddingUnavailableError, match=str(status)) as caught:
        await make(max_retries=1).aembed("a")
    assert isinstance(caught.value, ConnectionError)
    assert len(server.requests) == 2


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_an_error_that_does_not_show_it(server: Any, make: Any, status: int) -> None:
    server.refuses(status, message=f"Incorrect API key provided: {KEY}")
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY") as caught:
        await make().aembed("a")
    assert KEY not in "".join(traceback.format_exception(caught.value))
    assert len(server.requests) == 1


async def test_a_refused_request_is_not_repeated(server: Any, make: Any) -> None:
    server.refuses(400)
    with pytest.raises(EmbeddingError, match="400"):
        await make().aembed("a")
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    "garbage",
    [b"", b"<html>", b"{", b"[]", b"null", b'"text"', {}, {"data": None}, {"data": 7}, {"data": [{}]}, {"data": []}],
)
@pytest.mark.parametrize("asynchronous", [True, False])
async def test_garbage_is_an_embedding_error(server: Any, make: Any, garbage: Any, asynchronous: bool) -> None:
    server.says(garbage)
    embeddings = make(max_retries=0)
    with pytest.raises(EmbeddingError):
        await (embeddings.aembed("a") if asynchronous else asyncio.to_thread(embeddings.embed, "a"))


@pytest.mark.parametrize("vector", [[1.0], [1.0] * 5, [], None, "abcd", [1.0, 2.0, None, 3.0]])
async def test_a_bad_vector_is_refused(server: Any, make: Any, vector: Any) -> None:
    server.embeds(vector)
    with pytest.raises(BadVectorError):
        await make(max_retries=0).aembed("a")


async def test_too_few_vectors_are_refused(server: Any, make: Any) -> None:
    server.embeds([1.0] * 4)
    with pytest.raises(EmbeddingError, match="1 embeddings for 2 texts"):
        await make(max_retries=0).aembed_many(["a", "b"])


async def test_a_slow_server_is_unavailable(server: Any, make: Any) -> None:
    server.delay = 60
    with pytest.raises(EmbeddingUnavailableError, match=r"0\.1 seconds"):
        await make(timeout=0.1, max_retries=0).aembed("a")


async def test_a_server_that_is_not_there_is_unavailable(make: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        with pytest.raises(EmbeddingUnavailableError, match="cannot be reached"):
            await make(base_url=url, max_retries=0).aembed("a")


async def test_the_key_comes_from_the_environment(server: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-from-the-environment")
    await make(api_key=None).aembed("a")
    assert server.keys == ["Bearer sk-from-the-environment"]


async def test_a_server_of_ones_own_needs_no_key(server: Any, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    assert await make(api_key=None).aembed("a") == server.vector_of("a")


async def test_without_any_key_the_error_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(EmbeddingError, match="OPENAI_API_KEY"):
        await OpenAIEmbeddings().aembed("a")


async def test_the_key_is_in_no_repr_and_no_log(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    embeddings = make()
    with caplog.at_level(logging.DEBUG):
        await embeddings.aembed("a")
    assert repr(embeddings) == "OpenAIEmbeddings(model='m', dimension=4)"
    assert KEY not in caplog.text


def test_defaults_are_those_of_the_documentation() -> None:
    embeddings = OpenAIEmbeddings()
    assert isinstance(embeddings, Embeddings)
    assert (embeddings.model, embeddings.dimension) == ("text-embedding-3-small", 1536)
    assert embeddings.identity() == "text-embedding-3-small"


@pytest.mark.parametrize("option", ["dimension", "batch_size", "concurrency"])
def test_an_option_below_one_is_refused(option: str) -> None:
    with pytest.raises(InputError, match=option):
        OpenAIEmbeddings(**{option: 0})


def test_it_works_in_several_event_loops_after_each_other(server: Any) -> None:
    embeddings = OpenAIEmbeddings(model="m", dimension=4, api_key=KEY, base_url=server.url)

    async def once() -> list[float]:
        vector = await embeddings.aembed("a")
        await embeddings.aclose()
        return vector

    assert asyncio.run(once()) == asyncio.run(once()) == server.vector_of("a")
