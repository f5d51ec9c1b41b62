"""Options of every backend, in its URL and as keywords: each is given once, and two that differ are refused."""

from __future__ import annotations

import importlib
import inspect
import sys
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import memoranda
from memoranda.errors import InputError, PluginNotFoundError
from memoranda.plugins import Registry
from memoranda.store import InMemoryStore
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_postgres import PostgresMemoryStore
from memoranda_redis import ShortTermMemoryManager
from memoranda_redis.store import RedisMemoryStore
from memoranda_sqlite import SQLiteMemoryStore
from memoranda_vector import VectorMemoryStore

EXAMPLE = Path(__file__).resolve().parent.parent / "docs" / "examples" / "memoranda-jsonl" / "src"
sys.path.append(str(EXAMPLE))
JsonLinesStore = importlib.import_module("memoranda_jsonl.store").JsonLinesStore

OBJECTS = {"pool", "ssl", "weights"}
"""Options that no text can say."""


@dataclass(frozen=True)
class Option:
    """An option of a store: what the URL says, the keyword that says the same, one that does not, and no value."""

    url: str
    name: str
    text: str
    same: Any
    other: Any
    wrong: Any

    def __str__(self) -> str:
        return f"{self.url.partition(':')[0]}-{self.name}"


SQLITE, POSTGRES, REDIS = "sqlite://", "postgresql://host/db", "redis://host:6379/0"
VECTOR, JSONL = "vector://", "jsonl:///x.jsonl"
OPTIONS = [
    Option(SQLITE, "durability", "normal", "normal", "full", 1),
    Option(SQLITE, "busy_timeout", "5", 5, 6, True),
    Option(SQLITE, "embeddings", "hashing", "hashing", HashingEmbeddings(), "absent"),
    Option(POSTGRES, "schema", "agents", "agents", "others", 5),
    Option(POSTGRES, "min_size", "0", 0, 2, True),
    Option(POSTGRES, "max_size", "5", 5, 6, "5"),
    Option(POSTGRES, "statement_cache_size", "0", 0, 10, 0.5),
    Option(POSTGRES, "connect_timeout", "5", 5.0, 6, True),
    Option(POSTGRES, "timeout", "2.5", 2.5, 3, 10**400),
    Option(POSTGRES, "partitions", "4", 4, 8, -(10**5000)),
    Option(POSTGRES, "embeddings", "hashing", "hashing", HashingEmbeddings(), "absent"),
    Option(POSTGRES, "replicas", "one,two:5433", "one,two:5433", "three", 5),
    Option(POSTGRES, "replica_lag", "2", 2.0, 3, True),
    Option(REDIS, "namespace", "agents", "agents", "others", 5),
    Option(REDIS, "timeout", "2.5", 2.5, 3, float("nan")),
    Option(REDIS, "max_connections", "3", 3, 4, True),
    Option(VECTOR, "embeddings", "hashing", "hashing", HashingEmbeddings(), "absent"),
    Option(VECTOR, "ann", "no", False, True, "no"),
    Option(VECTOR, "ann_above", "10", 10, 11, -1),
    Option(JSONL, "sync", "no", False, True, "no"),
]
STORES: dict[str, Any] = {
    "memory://": InMemoryStore,
    SQLITE: SQLiteMemoryStore,
    POSTGRES: PostgresMemoryStore,
    REDIS: RedisMemoryStore,
    VECTOR: VectorMemoryStore,
    JSONL: JsonLinesStore,
}
every_option = pytest.mark.parametrize("option", OPTIONS, ids=str)


@pytest.fixture(scope="module")
def registry() -> Registry:
    """All that is installed, and the example of the documentation."""
    return Registry(
        [
            *(
                EntryPoint(name, f"memoranda_{name}.plugin", "memoranda")
                for name in ("backend", "sqlite", "postgres", "redis")
            ),
            EntryPoint("vector", "memoranda_vector.plugin", "memoranda"),
            EntryPoint("jsonl", "memoranda_jsonl.plugin", "memoranda"),
        ],
        allow=None,
    )


def opened(registry: Registry, option: Option, query: str = "", **keywords: Any) -> Any:
    """Open the store of an option; nothing is connected."""
    if option.url == VECTOR and option.name != "embeddings":
        keywords["embeddings"] = HashingEmbeddings()
    return memoranda.open(option.url + query, registry=registry, **keywords)


@pytest.mark.parametrize("url", STORES)
def test_every_option_of_every_backend_is_tried_here(url: str) -> None:
    taken = set(inspect.signature(STORES[url].from_url).parameters) - {"url"} - OBJECTS

    assert taken == {option.name for option in OPTIONS if option.url == url}


@every_option
def test_an_option_with_two_values_is_refused_by_name(registry: Registry, option: Option) -> None:
    with pytest.raises(InputError, match=f"{option.name}.*give it once") as caught:
        opened(registry, option, f"?{option.name}={option.text}", **{option.name: option.other})

    assert caught.value.field == option.name


@every_option
def test_an_option_may_be_said_twice_alike(registry: Registry, option: Option) -> None:
    assert opened(registry, option, f"?{option.name}={option.text}", **{option.name: option.same})


@every_option
def test_an_option_may_stand_in_the_url_or_be_a_keyword(registry: Registry, option: Option) -> None:
    assert opened(registry, option, f"?{option.name}={option.text}")
    assert opened(registry, option, f"?{option.name}={option.text}", **{option.name: None})
    assert opened(registry, option, **{option.name: option.same})


@every_option
def test_a_value_of_another_kind_is_refused_by_name(registry: Registry, option: Option) -> None:
    with pytest.raises((InputError, PluginNotFoundError), match=f"{option.name}|absent"):
        opened(registry, option, **{option.name: option.wrong})


@every_option
def test_an_option_without_a_value_is_refused_by_name(registry: Registry, option: Option) -> None:
    with pytest.raises((InputError, PluginNotFoundError), match=f"{option.name}|embedder"):
        opened(registry, option, f"?{option.name}=")


@pytest.mark.parametrize("name", ["timeout", "max_connections"])
@pytest.mark.parametrize("make", [ShortTermMemoryManager, RedisMemoryStore])
def test_a_redis_url_given_to_a_class_follows_the_same_rule(make: Any, name: str) -> None:
    assert make(f"{REDIS}?{name}=3", **{name: 3})
    with pytest.raises(InputError, match=f"{name}.*give it once"):
        make(f"{REDIS}?{name}=3", **{name: 4})
    with pytest.raises(InputError, match=name):
        make(f"{REDIS}?{name}=0")


PLUGIN = """
from memoranda_backend.ranking import HashingEmbeddings
from memoranda.plugins import EmbeddingsSpec, hookimpl

class Own(HashingEmbeddings):
    pass

@hookimpl
def memoranda_embeddings():
    return [EmbeddingsSpec("own", target="own_embedder:Own")]
"""


@pytest.mark.parametrize("url", [SQLITE, POSTGRES, VECTOR])
def test_an_embedder_is_looked_for_in_the_registry_that_was_given(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_embedder.py").write_text(PLUGIN, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    names = ("sqlite", "postgres", "vector")
    plugins = [EntryPoint(name, f"memoranda_{name}.plugin", "memoranda") for name in names]
    own = Registry([*plugins, EntryPoint("own", "own_embedder", "memoranda")], allow=None)

    assert memoranda.open(f"{url}?embeddings=own", registry=own)
    assert memoranda.open(url, registry=own, embeddings="own")
    with pytest.raises(PluginNotFoundError):
        memoranda.open(f"{url}?embeddings=own")


def test_the_vector_store_takes_weights_with_a_url() -> None:
    from memoranda_backend.ranking import Weights

    assert memoranda.open("vector://?embeddings=hashing", weights=Weights(semantic=1.0))
