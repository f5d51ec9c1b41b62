"""CrewAI's memory in any store. Copy the class; it needs crewai.

    pip install -r requirements.txt crewai
    python examples/recipes/crewai_storage.py

It prints:

    recalled: Ada's flat is in Oslo.
    a search of the store finds: Ada's dog is called Bobdog.
    left after forgetting: 1
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import sys
from collections.abc import Iterable
from typing import Any

from crewai import Memory
from crewai.memory.types import MemoryRecord

import memoranda.sync
from memoranda import MemoryItem, MemoryMetadata
from memoranda.sync import SyncStore


class MemorandaStorage:
    """CrewAI's embedder and its storage in one: ``Memory(storage=both, embedder=both)``.

    The storage is asked with an embedding, never with the text. So this one remembers which text it embedded last.
    """

    def __init__(self, store: SyncStore) -> None:
        self.store, self.texts = store, dict[tuple[float, ...], str]()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        made = [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()] for text in texts]
        self.texts.update(zip(map(tuple, made), texts, strict=True))
        for oldest in list(self.texts)[:-1000]:
            self.texts.pop(oldest, None)
        return made

    def save(self, records: list[MemoryRecord]) -> None:
        self.store.add_many(
            MemoryItem(
                id=each.id,
                content=each.content,
                memory_type="crewai",
                payload=each.model_dump_json(),
                payload_format="crewai",
                metadata=placed(each.scope, each.metadata, each.categories),
            )
            for each in records
        )

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def search(
        self,
        query_embedding: list[float],
        scope_prefix: str | None = None,
        categories: list[str] | None = None,
        metadata_filter: dict[str, Any] | None = None,
        limit: int = 10,
        min_score: float = 0.0,
    ) -> list[tuple[MemoryRecord, float]]:
        found = self.store.search_ranked(
            query=self.texts[tuple(query_embedding)],
            memory_type="crewai",
            metadata=placed(scope_prefix, metadata_filter),
            limit=sys.maxsize if categories else limit,
            min_score=min_score,
        )
        if categories:
            wanted = {f"category {each}" for each in categories}
            found = [each for each in found if not wanted.isdisjoint(each.item.metadata.extra)][:limit]
        return [(record_of(each.item), each.score) for each in found]

    def delete(self, record_ids: list[str] | None = None, **filters: Any) -> int:
        if record_ids is None:
            raise NotImplementedError("Forget memories by their record_ids.")
        return sum(self.store.purge(each) for each in record_ids)


def placed(scope: str | None, metadata: dict[str, Any] | None, categories: Iterable[str] = ()) -> MemoryMetadata:
    """Return where a memory of CrewAI lies, and what it is found by; or the filter that finds it."""
    marks = {f"metadata {key}": value for key, value in (metadata or {}).items()}
    marks |= {f"category {each}": True for each in categories}
    return MemoryMetadata(namespace=tuple(filter(None, (scope or "").split("/"))), extra=marks)


def record_of(item: MemoryItem) -> MemoryRecord:
    """Return an item as CrewAI knows it: what the store says itself, whatever the payload says."""
    scope = "/" + "/".join(item.metadata.namespace)
    record = MemoryRecord.model_validate_json(item.payload or "")
    return record.model_copy(update={"id": item.id, "content": item.content, "scope": scope})


def main() -> tuple[str, str, int]:
    with memoranda.sync.open("memory://") as store:
        both = MemorandaStorage(store.scoped(user_id="ada"))
        memory = Memory(storage=both, embedder=both)
        for text in ("Ada's flat is in Oslo.", "Ada's dog is called Bobdog."):
            memory.remember(text, scope="/ada", categories=["home"], importance=0.5)
        (match,) = memory.recall("Where is the flat?", depth="shallow", limit=1)
        (item,) = store.search(query="bobdog")
        memory.forget(record_ids=[match.record.id])
        return match.record.content, item.content, store.count()


if __name__ == "__main__":
    with contextlib.redirect_stdout(io.StringIO()):  # CrewAI prints what its memory does.
        recalled, found, left = main()
    print("recalled:", recalled)
    print("a search of the store finds:", found)
    print("left after forgetting:", left)
