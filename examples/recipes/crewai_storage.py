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
from typing import Any

from crewai import Memory
from crewai.memory.types import MemoryRecord

import memoranda.sync
from memoranda import MemoryItem
from memoranda.sync import SyncStore


class MemorandaStorage:
    """CrewAI's embedder and its storage in one: ``Memory(storage=both, embedder=both)``.

    The storage is asked with an embedding, never with the text. So this one remembers which text it embedded.
    """

    def __init__(self, store: SyncStore) -> None:
        self.store, self.texts = store, dict[tuple[float, ...], str]()

    def __call__(self, texts: list[str]) -> list[list[float]]:
        made = [[byte - 127.5 for byte in hashlib.sha256(text.encode()).digest()] for text in texts]
        self.texts.update(zip(map(tuple, made), texts, strict=True))
        return made

    def save(self, records: list[MemoryRecord]) -> None:
        said = [{"id": each.id, "content": each.content, "payload": each.model_dump_json()} for each in records]
        self.store.add_many([MemoryItem(memory_type="crewai", payload_format="crewai", **each) for each in said])

    def update(self, record: MemoryRecord) -> None:
        self.save([record])

    def search(self, query_embedding: list[float], **filters: Any) -> list[tuple[MemoryRecord, float]]:
        asked = {"query": self.texts[tuple(query_embedding)], "min_score": filters.get("min_score", 0.0)}
        pairs = []
        for found in self.store.search_ranked(memory_type="crewai", limit=filters.get("limit", 10), **asked):
            record = MemoryRecord.model_validate_json(found.item.payload or "")
            if record.scope.startswith(filters.get("scope_prefix") or ""):
                pairs.append((record.model_copy(update={"content": found.item.content}), found.score))
        return pairs

    def delete(self, record_ids: list[str] | None = None, **filters: Any) -> int:
        if record_ids is None:
            raise NotImplementedError("Forget memories by their record_ids.")
        return sum(self.store.purge(each) for each in record_ids)


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
