"""A process in which items have fields more than they do: ``added_field.py URL…``.

The fields are added to the source of the model and nowhere else, as a later release would add them. Each URL's store
has to give them back by every way of reading; so have the codec, the rows of SQL, the entries of Redis and the kit.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
import types
from pathlib import Path
from typing import Any

LAST = "    archived_by: str | None = None\n"
ADDED = """\
    mood: str | None = None
    weight: float = 0.5
    labels: list[str] = Field(default_factory=list)
    links: dict[str, Any] | None = None
"""
NOT_PLAIN = "    due: datetime | None = None\n"
VALUES = {"mood": "calm", "weight": 2, "labels": ["a", ""], "links": {"to": [None, 1.5]}}


def items_with(added: str) -> types.ModuleType:
    """Load ``memoranda.items`` with further fields of every item."""
    spec = importlib.util.find_spec("memoranda.items")
    assert spec is not None
    assert spec.origin is not None
    text = Path(spec.origin).read_text(encoding="utf-8")
    assert text.count(LAST) == 1, "the fields of MemoryItem stand elsewhere"
    module = importlib.util.module_from_spec(spec)
    sys.modules["memoranda.items"] = module
    exec(compile(text.replace(LAST, LAST + added), spec.origin, "exec"), module.__dict__)  # our own source
    return module


async def check(urls: list[str], *, plain: bool) -> None:
    """Send items with all the fields, with none, and with the others' defaults through everything."""
    items: Any = items_with(ADDED if plain else ADDED + NOT_PLAIN)

    import memoranda
    from memoranda.store import copy_item, dump_item, load_item
    from memoranda.store.backend import check_item
    from memoranda_backend.sql import pack, unpack
    from memoranda_testing.expect import ExpectationError, same_item

    values: dict[str, Any] = dict(VALUES) if plain else {**VALUES, "due": "2024-02-29T12:30:00Z"}
    scope = items.MemoryMetadata(user_id="ada")
    kinds = [items.MemoryItem, *items.BUILTIN_TYPES.values()]
    made = [
        *(kind(content="x", metadata=scope, **values) for kind in kinds),
        *(kind(content="x", metadata=scope) for kind in kinds),
        *(kind(content="x", metadata=scope, name="Ada", unknown=[1], **values) for kind in kinds),
        items.MemoryItem(content="x", memory_type="not-installed", metadata=scope, **values),
    ]
    for item in made:
        check_item(item)
        same_item(load_item(json.loads(json.dumps(dump_item(item)))), item, "the codec")
        same_item(copy_item(item), item, "a copy")
        assert copy_item(item).labels is not item.labels
        row = pack(item)
        same_item(unpack([*row[:6], row.created_at, row.updated_at, 0]), item, "a row")
    changed = copy_item(made[0])
    changed.labels = ["other"]
    try:
        same_item(changed, made[0], "the kit")
    except ExpectationError:
        pass
    else:
        raise AssertionError("The kit takes items for the same that differ in an added field.")
    for url in urls:
        async with memoranda.open(url) as store:
            made = [item for item in made if item.memory_type != "branch"]  # Only fork() makes these.
            await store.add_many(made[1:])
            await store.add(made[0])
            for item in made:
                same_item(await store.get(item.id), item, f"get from {type(store).__name__}")
            found = {item.id: item async for item in store.scan()}
            shown = {item.id: item for item in await store.search(limit=100)}
            for item in made:
                same_item(found[item.id], item, f"scan of {type(store).__name__}")
                same_item(shown[item.id], item, f"search in {type(store).__name__}")
            kept = await store.get(made[0].id)
            assert kept is not None
            same_item(await store.update(kept), made[0], f"update in {type(store).__name__}")
            await store.purge(metadata=scope)
    await check_entries(items, values, same_item)


async def check_entries(items: Any, values: dict[str, Any], same_item: Any) -> None:
    """Send an interaction through its form in Redis."""
    from memoranda_redis.episodic import EpisodicMemory, dump_entry, load_entry, new_memory

    scope = items.MemoryMetadata(agent_id="a")
    for further in ({}, values):
        memory = EpisodicMemory(content="x", interaction_type="chat", metadata=scope, **further)
        entry = json.loads("{" + ",".join(dump_entry(memory)) + "}") | {"timestamp": memory.created_at}
        same_item(load_entry(entry, "a"), memory, "an entry")
    fresh = new_memory("chat", "x", None, scope, memory.created_at)
    same_item(fresh, EpisodicMemory(**fresh.model_dump()), "a new entry")


if __name__ == "__main__":
    asyncio.run(check(sys.argv[2:], plain=sys.argv[1] == "plain"))
