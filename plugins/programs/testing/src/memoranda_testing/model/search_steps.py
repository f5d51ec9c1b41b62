"""Random searches for text that engines compare wrongly: wildcards, cases beyond ASCII, composed letters."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda_testing.case import made, moment
from memoranda_testing.model.steps import Call

LETTERS = "aAbB ßẞsSİiıIςσΣжЖéE\u0301ﬁ🦉%_\\'\"*\n0"
"""Characters that LIKE, full-text engines, shells and ASCII-only case folding get wrong."""

_TYPES = ("human", "note", "")
_VALUES = (True, False, 1, 1.0, 0, "1", "", None, [1], [True], {"x": 1}, {"x": 1.0, "y": None})
_CHANGES = (
    str,
    str.upper,
    str.lower,
    str.swapcase,
    lambda text: f"{text[:1]}%{text[2:]}",
    lambda text: f"{text[:1]}_{text[2:]}",
    lambda text: f"{text[:1]}\\{text[2:]}",
)


def random_searches(random: Random, mark: str = "") -> Iterator[Call]:
    """Yield a batch of items, and searches for them; a query is mostly a part of a content with something changed."""
    user, root = f"{mark}u", (mark,) if mark else ()
    items = []
    for number in range(random.randint(1, 8)):
        kind = random.choice(_TYPES)
        values = {
            "id": f"{mark}{number}",
            "content": "".join(random.choices(LETTERS, k=random.randint(0, 6))),
            "memory_type": kind,
            "status": random.choice(list(MemoryStatus)),
            "metadata": MemoryMetadata(user_id=user, namespace=root, **_scope(random)),
            "created_at": moment(random.randint(0, 2)),
        }
        items.append(made(BUILTIN_TYPES.get(kind, MemoryItem), **values))
    yield Call("add_many", {"items": items})
    for _ in range(random.randint(1, 6)):
        content, start = random.choice(items).content, random.randint(0, 3)
        arguments: dict[str, Any] = {
            "query": random.choice(_CHANGES)(content[start : start + random.randint(0, 3)]),
            "mode": "substring",
            "metadata": MemoryMetadata(user_id=user, **(_scope(random) if random.random() < 0.33 else {})),
            "limit": random.randint(0, 9),
        }
        if random.random() < 0.5:
            arguments["memory_type"] = random.choice(_TYPES)
        if random.random() < 0.5:
            arguments["status"] = random.choice(list(MemoryStatus))
        yield Call("search", arguments)


def _scope(random: Random) -> dict[str, Any]:
    """Return some of the fields that narrow a user's memories."""
    fields: dict[str, Any] = {}
    if random.random() < 0.5:
        fields["session_id"] = random.choice(("", "s", "S", "%"))
    if random.random() < 0.5:
        fields["task_id"] = random.choice(("", "t"))
    if random.random() < 0.5:
        keys = random.sample(("k", "a.b", ""), random.randint(0, 2))
        fields["extra"] = {key: random.choice(_VALUES) for key in keys}
    return fields
