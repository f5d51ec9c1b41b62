"""Exact words are found on every store, whatever language an item or a query is taken for."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, MemoryMetadata, Store
from memoranda_backend.ranking import HashingEmbeddings, is_unspaced
from memoranda_encrypt import KeyRing, LocalMasterKey
from servers import postgres_server, redis_server

BACKEND_TESTS = Path(__file__).parents[1] / "plugins" / "libraries" / "backend" / "tests"
SENTENCES = [line.split(" | ") for line in (BACKEND_TESTS / "sentences.txt").read_text("utf-8").splitlines()]
GERMAN = ["Wir haben das gestern schon besprochen", "Und was hat er dann zu dir gesagt?", "Das weiß ich nicht mehr"]
STORES = ("memory", "sqlite", "postgres", "redis", "vector", "encrypted")
_PIECE = re.compile(r"[^\s.,:;!?(){}\[\]<>=*&|~+/'\"-]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text; where there are no spaces between words, each pair of its letters."""
    return [
        word
        for piece in _PIECE.findall(text)
        for word in (["".join(pair) for pair in pairwise(piece)] if is_unspaced(piece) else [piece])
    ]


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    folder = tmp_path_factory.mktemp("words")
    with ExitStack() as servers:
        yield {
            "memory": "memory://",
            "sqlite": f"sqlite:///{folder}/words.db",
            "postgres": servers.enter_context(servers.enter_context(postgres_server()).database()),
            "redis": f"{servers.enter_context(redis_server()).url}?namespace={uuid.uuid4().hex}",
            "vector": "vector://",
            "encrypted": f"sqlite:///{folder}/sealed.db",
        }


@asynccontextmanager
async def opened(name: str, urls: dict[str, str], folder: Path) -> AsyncIterator[Store]:
    options: dict[str, Any] = {"embeddings": HashingEmbeddings(dimension=32)} if name == "vector" else {}
    if name == "encrypted":
        LocalMasterKey.make_file(folder / "master.key")
        options = {"encrypt": KeyRing(LocalMasterKey.from_file(folder / "master.key"), folder / "keys")}
    async with memoranda.open(urls[name], **options) as store:
        yield store


@pytest.mark.parametrize("name", STORES)
async def test_every_word_finds_its_item_in_thirty_languages_and_in_mixtures(
    name: str, urls: dict[str, str], tmp_path: Path
) -> None:
    """All languages together, and some alone among German ones, for which a word is taken then."""
    texts = [text for _, text in SENTENCES]
    async with opened(name, urls, tmp_path) as store:
        await store.add_many(_items("all", texts))
        words = [(word, text) for text in texts for word in words_of(text)]
        assert not [word for word, text in words if not await _finds(store, "all", word, text)]
        for number, text in enumerate(texts[::4]):
            user = f"mixed {number}"
            await store.add_many(_items(user, [*GERMAN, text]))
            assert not [word for word in words_of(text) if not await _finds(store, user, word, text)]


def _items(user: str, texts: list[str]) -> list[HumanMemory]:
    metadata = MemoryMetadata(user_id=user)
    return [HumanMemory(id=f"{user}: {number}", content=text, metadata=metadata) for number, text in enumerate(texts)]


async def _finds(store: Store, user: str, word: str, text: str) -> bool:
    """Return True if the item that has a word is among those that have it themselves."""
    found = await store.search_ranked(query=word, metadata=MemoryMetadata(user_id=user), mode="text", limit=100)
    return text in [each.item.content for each in found if each.terms]
