"""From a URL to a store."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda import HumanMemory, MemoryError, MemoryItem
from memoranda.errors import InputError, PluginError, UnknownSchemeError, UnsupportedError
from memoranda.opening import data_folder, default_url
from memoranda.plugins import Registry, RerankerSpec
from memoranda.store import InMemoryStore, Observer, RankedItem
from memoranda.store.ranked import installed_ranker

PLUGIN = """
from memoranda.plugins import (
    Backend, ItemTypeSpec, EmbeddingsSpec, ObserverSpec, RankerSpec, RerankerSpec, WrapperSpec, hookimpl
)
from memoranda.store import InMemoryStore
from memoranda.items import MemoryItem
from memoranda.store import Observer, RankedItem

class Shelf(InMemoryStore):
    def __init__(self, url, shelf="top", embeddings=None):
        super().__init__()
        self.url, self.shelf, self.embeddings = url, shelf, embeddings

    @classmethod
    def from_url(cls, url, *, shelf="top", embeddings=None):
        return cls(url, shelf, embeddings)

class Shout(Observer):
    def before_add(self, item):
        item.content = item.content.upper()
        return item

class Backwards:
    async def rerank(self, query, ranked):
        return ranked[::-1]

@hookimpl
def memoranda_backends():
    return [
        Backend("shelf", schemes=("shelf",), target="opening_plugin:Shelf"),
        Backend("plain", schemes=("plain",), target="builtins:str"),
    ]

class Box(InMemoryStore):
    def __init__(self, store, value, **options):
        super().__init__()
        self.inner, self.value, self.options = store, value, options

Box.options = {"colour": str}

@hookimpl
def memoranda_wrappers():
    return [
        WrapperSpec("box", prefix="boxed", target="opening_plugin:Box"),
        WrapperSpec("crate", target="opening_plugin:Box"),
    ]

@hookimpl
def memoranda_observers():
    return [ObserverSpec("shout", target="opening_plugin:Shout")]

class Echo:
    pass

class Longest:
    def index(self):
        return self

    def rank(self, query, entries, *, belongs, wanted, limit):
        found = [entry.item for entry in entries if belongs(entry.item) and (wanted is None or wanted(entry.item))]
        found.sort(key=lambda item: -len(item.content))
        return [RankedItem(item, len(item.content)) for item in found[:limit]]

@hookimpl
def memoranda_embeddings():
    return [EmbeddingsSpec("echo", target="opening_plugin:Echo")]

@hookimpl
def memoranda_rankers():
    return [RankerSpec("longest", target="opening_plugin:Longest")]

@hookimpl
def memoranda_rerankers():
    return [RerankerSpec("backwards", target="opening_plugin:Backwards")]
"""


@pytest.fixture
def registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry:
    """A registry with one plugin."""
    (tmp_path / "opening_plugin.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("opening_plugin", None)
    return Registry([EntryPoint("opening", "opening_plugin", "memoranda")], allow=None)


def test_memory_opens_an_empty_store() -> None:
    assert isinstance(memoranda.open("memory://"), InMemoryStore)


def test_options_reach_the_backend(registry: Registry) -> None:
    store = memoranda.open("shelf://x", registry=registry, shelf="bottom", embeddings="echo")

    assert store.shelf == "bottom"  # type: ignore[attr-defined]  # the test's own store
    assert type(store.embeddings).__name__ == "Echo"  # type: ignore[attr-defined]  # as above


def test_an_unknown_option_is_named_with_the_known_ones(registry: Registry) -> None:
    with pytest.raises(InputError, match=r"no option 'shlef'\. Its options: shelf, embeddings"):
        memoranda.open("shelf://x", registry=registry, shlef="bottom")


def test_errors_hide_passwords(registry: Registry) -> None:
    with pytest.raises(InputError) as caught:
        memoranda.open("shelf://ada:s3cret@h", registry=registry, shlef=1)
    assert "s3cret" not in str(caught.value)


def test_a_wrapper_is_asked_for_by_its_option(registry: Registry) -> None:
    store: Any = memoranda.open("shelf://a?colour=red", registry=registry, box="oak", shelf="low", access="change")

    assert (store.value, store.options, store.access) == ("oak", {"colour": "red"}, "change")
    assert (store.inner.shelf, store.inner.url, store.inner.access) == ("low", "shelf://a", "change")


def test_a_wrapper_is_asked_for_by_its_prefix(registry: Registry) -> None:
    store: Any = memoranda.open("boxed+shelf://a", registry=registry)

    assert (store.value, store.inner.url) == (True, "shelf://a")


def test_a_wrapper_takes_the_value_of_its_option_where_the_prefix_names_it_too(registry: Registry) -> None:
    store: Any = memoranda.open("BOXED+shelf://a", registry=registry, box="oak")

    assert (store.value, store.inner.url) == ("oak", "shelf://a")


def test_wrappers_lie_around_each_other_in_the_order_of_their_names(registry: Registry) -> None:
    store: Any = memoranda.open("shelf://a", registry=registry, crate=2, box=1)

    assert (store.value, store.inner.value) == (2, 1)


@pytest.mark.parametrize("nothing", [None, False])
def test_a_wrapper_that_is_switched_off_is_left_out(registry: Registry, nothing: object) -> None:
    store: Any = memoranda.open("shelf://a", registry=registry, box=nothing)

    assert store.url == "shelf://a"


async def test_observers_see_the_outermost_wrapper(registry: Registry) -> None:
    store: Any = memoranda.open("boxed+shelf://a", registry=registry, observers=["shout"])
    async with store:
        await store.add(HumanMemory(id="a", content="hello"))
        found = await store.get("a")

    assert found.content == "HELLO"


@pytest.mark.parametrize(("url", "options"), [("memory://", {"encrypt": True}), ("encrypted+memory://", {})])
def test_a_wrapper_that_is_missing_says_what_to_install(url: str, options: dict[str, Any]) -> None:
    with pytest.raises((InputError, UnknownSchemeError), match=r"'memoranda\[encrypt\]'"):
        memoranda.open(url, registry=Registry([], allow=None), **options)


def test_an_unknown_scheme_says_what_there_is(registry: Registry) -> None:
    with pytest.raises(UnknownSchemeError, match="memory, plain, shelf"):
        memoranda.open("mysql://h/d", registry=registry)


def test_a_backend_that_makes_no_store_is_found_out(registry: Registry) -> None:
    with pytest.raises(MemoryError, match="not a store"):
        memoranda.open("plain://x", registry=registry)


async def test_observers_are_attached_by_name_or_object(registry: Registry) -> None:
    class Exclaim(Observer):
        def before_add(self, item: MemoryItem) -> MemoryItem:
            item.content += "!"
            return item

    async with memoranda.open("memory://", registry=registry, observers=["shout", Exclaim()]) as store:
        await store.add(HumanMemory(content="hi"))

        assert [item.content for item in await store.search()] == ["HI!"]


async def test_a_ranker_may_be_chosen_by_name(registry: Registry) -> None:
    async with memoranda.open("shelf://x", registry=registry, ranker="longest") as store:
        await store.add(HumanMemory(content="tea"))
        await store.add(HumanMemory(content="coffee with milk"))

        found = await store.search_ranked(query="tea", mode="text")

    assert [(ranked.item.content, ranked.score) for ranked in found] == [("coffee with milk", 16), ("tea", 3)]


async def test_a_ranker_that_knows_no_current_values_keeps_its_order(registry: Registry) -> None:
    async with memoranda.open("shelf://x", registry=registry, ranker="longest") as store:
        await store.add(HumanMemory(content="Ada lives in Copenhagen"))
        await store.add(HumanMemory(content="Ada lives in Rome"))

        found = await store.search(query="Ada", mode="text", current=True)

    assert [item.content for item in found] == ["Ada lives in Copenhagen", "Ada lives in Rome"]


def test_a_ranker_of_another_author_replaces_ours(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.plugins.default_registry", lambda: registry)

    assert type(installed_ranker()).__name__ == "Longest"


def test_a_reranker_of_the_backend_stays_unless_another_is_given(registry: Registry) -> None:
    store = memoranda.open("shelf://x", registry=registry)

    assert store.reranker is None
    backwards = registry.make(registry.find(RerankerSpec, "backwards"))
    type(store).reranker = backwards
    assert memoranda.open("shelf://x", registry=registry).reranker is backwards


async def test_a_ranker_that_is_broken_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = Registry([EntryPoint("backend", "no_such_ranking_module", "memoranda")], allow=None)
    monkeypatch.setattr("memoranda.plugins.default_registry", lambda: broken)

    with pytest.raises(UnsupportedError, match=r"without a ranker\."):
        await InMemoryStore().search(query="tea", mode="text")


async def test_text_search_without_a_ranker_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("memoranda.plugins.default_registry", lambda: Registry([], allow=None))
    store = InMemoryStore()
    await store.add(HumanMemory(content="tea"))

    with pytest.raises(
        UnsupportedError,
        match=r"without a ranker\. Try: pip install 'memoranda\[backend\]'",
    ):
        await store.search(query="tea", mode="text")
    assert len(await store.search(query="tea")) == 1


async def test_a_reranker_reorders_ranked_results(registry: Registry) -> None:
    async with memoranda.open("memory://", registry=registry, reranker="backwards") as store:
        await store.add_many([HumanMemory(content="tea"), HumanMemory(content="tea and more words of no use at all")])
        plain = InMemoryStore()
        await plain.add_many([item async for item in store.scan()])

        ours = [found.item.id for found in await store.search_ranked(query="tea")]
        theirs = [found.item.id for found in await plain.search_ranked(query="tea")]

        assert len(ours) == 2
        assert ours == theirs[::-1]
        assert [item.id for item in await store.search(query="tea", mode="text", limit=1)] == ours[:1]


def test_the_environment_names_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_URL", "memory://")

    assert isinstance(memoranda.open(), InMemoryStore)


def test_without_a_url_there_is_a_file_in_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("MEMORANDA_URL", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "platform", "linux")

    assert default_url() == f"sqlite:///{tmp_path}/memoranda/memory.db"
    assert data_folder() == tmp_path / "memoranda"
    assert (tmp_path / "memoranda").stat().st_mode & 0o777 == 0o700


class Forges:
    """A reranker that returns other items under the ids it was given, and one twice."""

    async def rerank(self, query: str, ranked: Sequence[RankedItem]) -> list[RankedItem]:
        forged = [replace(found, item=MemoryItem(id=found.item.id, content="forged"), score=9.0) for found in ranked]
        return [*forged, *forged]


class Fails:
    """A reranker that answers with nothing at all."""

    async def rerank(self, query: str, ranked: Sequence[RankedItem]) -> Any:
        return None


async def test_a_reranker_gives_scores_and_no_items() -> None:
    store = memoranda.open("memory://", reranker=Forges())
    await store.init()
    await store.add(MemoryItem(content="tea time"))
    assert [(found.item.content, found.score) for found in await store.search_ranked(query="tea")] == [("tea time", 9)]


async def test_a_reranker_that_fails_is_a_plugin_error() -> None:
    store = memoranda.open("memory://", reranker=Fails())
    await store.init()
    await store.add(MemoryItem(content="tea time"))
    with pytest.raises(PluginError, match="Fails"):
        await store.search_ranked(query="tea")


def test_a_backend_that_exits_does_not_end_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InMemoryStore, "from_url", lambda url: sys.exit(5))
    with pytest.raises(PluginError, match="SystemExit"):
        memoranda.open("memory://")
