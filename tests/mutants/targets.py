"""The modules that are mutated, and how to open the store that each belongs to."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "memoranda-jsonl" / "src"
DICT_STORE = ROOT / "plugins" / "programs" / "testing" / "tests"
SQLITE = ROOT / "plugins" / "backends" / "sqlite" / "src"
VECTOR = ROOT / "plugins" / "backends" / "vector" / "src"

sys.path[:0] = [str(EXAMPLE), str(DICT_STORE)]


def _in_memory(folder: Path) -> Any:
    return import_module("memoranda.store").InMemoryStore()


def _four_methods(folder: Path) -> Any:
    return import_module("four_methods").DictStore()


def _jsonl(folder: Path) -> Any:
    return import_module("memoranda_jsonl").JsonLinesStore(folder / "memories.jsonl")


def _sqlite(folder: Path) -> Any:
    return import_module("memoranda_sqlite").SQLiteMemoryStore(folder / "memories.db")


def _sqlite_with_vectors(folder: Path) -> Any:
    embeddings = import_module("memoranda_backend.ranking").HashingEmbeddings(64)
    return import_module("memoranda_sqlite").SQLiteMemoryStore(folder / "memories.db", embeddings=embeddings)


def _sqlite_in_memory(folder: Path) -> Any:
    return import_module("memoranda_sqlite").SQLiteMemoryStore(":memory:")


def _vector(folder: Path) -> Any:
    return import_module("memoranda_vector").VectorMemoryStore(
        import_module("memoranda_backend.ranking").HashingEmbeddings(64)
    )


@dataclass(frozen=True)
class Target:
    """A module, and the stores that the kit runs on, one after the other."""

    module: str
    path: Path
    stores: tuple[Callable[[Path], Any], ...]
    """Functions that open a store on the data in a folder."""

    @property
    def store(self) -> str:
        """The name of the store that the kit runs on first."""
        return self.stores[0].__name__.strip("_")

    @property
    def label(self) -> str:
        """The file's place in the repository."""
        return str(self.path.relative_to(ROOT))


def _targets(folder: Path, package: str, names: str, *stores: Callable[[Path], Any]) -> list[Target]:
    return [
        Target(".".join(filter(None, (package, name))), folder / package.replace(".", "/") / f"{name}.py", stores)
        for name in names.split()
    ]


TARGETS = [
    *_targets(ROOT / "core" / "src", "memoranda.store", "in_memory entry_index", _in_memory),
    *_targets(DICT_STORE, "", "four_methods", _four_methods),
    *_targets(EXAMPLE, "memoranda_jsonl", "store operations journal", _jsonl),
    *_targets(SQLITE, "memoranda_sqlite", "statements reading scanning searching", _sqlite),
    *_targets(SQLITE, "memoranda_sqlite", "store", _sqlite, _sqlite_with_vectors, _sqlite_in_memory),
    *_targets(SQLITE, "memoranda_sqlite", "writing", _sqlite, _sqlite_with_vectors),
    *_targets(SQLITE, "memoranda_sqlite", "vectors", _sqlite_with_vectors),
    *_targets(VECTOR, "memoranda_vector", "engine table search filtering deleted_items stored_items", _vector),
]
