"""Shrink a history that fails: fewer steps, fewer arguments, fewer items, plainer values. Deterministic."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import copy_item
from memoranda_testing.model.player import Failure
from memoranda_testing.model.steps import Call, Cancelled, Many, ManyIds, Step, Together, spelled_out

Attempt = Callable[[Sequence[Step]], Awaitable[Failure | None]]
"""Plays steps on an empty store and returns how they fail."""

_PLAIN = {"content": "tea", "created_at": "2024-03-01T00:00:00.000000+00:00"}
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("name", "archived_by", "ttl", "expires_at", "trust", "origin")),
    "version": 0,
    "status": "accepted",
    "tool_calls": [],
    "tool_call_id": "",
}
_EMPTYING = 5
"""Roughly how many steps it takes to empty a store before each attempt."""

_FEW = 20
"""Of a list of so many, each element is tried alone. A longer one is tried in parts: that says as much, and sooner."""

_KEPT = frozenset({"item", "items", "ids", "item_id", "after", "query", "session_id", "at", "record"})
"""Arguments that a call cannot do without."""


PATIENCE = 60.0
"""Seconds after which shrinking ends on a very slow engine."""


class _Effort:
    """A budget in steps, not seconds, so that the result is the same on every machine."""

    def __init__(self, attempt: Attempt, steps: int) -> None:
        self._attempt = attempt
        self._steps = steps
        self._ends = time.monotonic() + PATIENCE

    @property
    def is_over(self) -> bool:
        """True if nothing more may be tried."""
        return self._steps <= 0 or time.monotonic() >= self._ends

    async def attempt(self, steps: Sequence[Step]) -> Failure | None:
        """Play steps on an empty store and return how they fail."""
        self._steps -= _EMPTYING + len(steps)
        return await self._attempt(steps)


async def shrunk(failure: Failure, attempt: Attempt, steps: int) -> Failure | None:
    """Return the shortest failure found within this many steps; None if it cannot be reproduced."""
    effort = _Effort(attempt, steps)
    best = await effort.attempt(failure.steps)
    if best is None or best.difference.kind == "not ended":
        return best
    best = await _fewer(best, effort)
    while not effort.is_over:
        plainer = await _plainer(best, effort)
        if plainer is None:
            break
        best = plainer
    return best


async def _fewer(best: Failure, effort: _Effort) -> Failure:
    """Leave out steps: halves first, then single ones, until none can be left out."""
    size = max(1, (len(best.steps) - 1) // 2)
    while True:
        found = None
        for start in range(max(0, len(best.steps) - 1 - size), -1, -size):
            if effort.is_over:
                return best
            found = await effort.attempt([*best.steps[:start], *best.steps[start + size :]])
            if found is not None:
                best = found
                break
        if found is None:
            if size == 1:
                return best
            size = max(1, size // 2)
        size = min(size, max(1, len(best.steps) - 1))


async def _plainer(best: Failure, effort: _Effort) -> Failure | None:
    """Return the first failure of the same kind with one thing plainer."""
    for position, step in enumerate(best.steps):
        for plainer in _plainer_steps(step):
            if effort.is_over:
                return None
            found = await effort.attempt([*best.steps[:position], plainer, *best.steps[position + 1 :]])
            if found is not None and found.difference.kind == best.difference.kind:
                return await _fewer(found, effort) if len(found.steps) > 2 else found
    return None


def _plainer_steps(step: Step) -> Iterator[Step]:
    if isinstance(step, Call):
        yield from _plainer_calls(step)
    elif isinstance(step, Cancelled):
        for call in _plainer_calls(step.call):
            yield replace(step, call=call)
    elif isinstance(step, Together):
        yield from step.calls
        if len(step.calls) > 2:
            yield Together(step.calls[1:])
        for position, call in enumerate(step.calls):
            for plainer in _plainer_calls(call):
                yield Together((*step.calls[:position], plainer, *step.calls[position + 1 :]))


def _plainer_calls(call: Call) -> Iterator[Call]:
    if call.scope is not None:
        yield replace(call, scope=None)
        yield from (replace(call, scope=scope) for scope in _plainer_metadata(call.scope))
    if call.instance:
        yield replace(call, instance=0)
    for name, value in call.arguments.items():
        others = {other: held for other, held in call.arguments.items() if other != name}
        if name not in _KEPT:
            yield replace(call, arguments=others)
        for plainer in _plainer_values(value):
            arguments = {**call.arguments, name: plainer}
            if name == "items" and "deleted" in arguments:  # It names items of the batch alone.
                ids = [item.id for item in spelled_out(plainer)]
                arguments["deleted"] = [item_id for item_id in spelled_out(call.arguments["deleted"]) if item_id in ids]
                if isinstance(plainer, Many):
                    arguments["deleted"] = ManyIds(plainer.prefix, plainer.count, plainer.start)
            yield replace(call, arguments=arguments)


def _plainer_values(value: Any) -> Iterator[Any]:
    if isinstance(value, MemoryItem):
        yield from _plainer_items(value) if value.memory_type != "branch" else ()
    elif isinstance(value, MemoryMetadata):
        yield from _plainer_metadata(value)
    elif isinstance(value, (Many, ManyIds)):
        for less in _smaller(value.count):
            yield replace(value, count=less)
    elif isinstance(value, list):
        yield from _shorter(value)
        for position, inner in enumerate(value if len(value) <= _FEW else ()):
            for plainer in _plainer_values(inner):
                yield [*value[:position], plainer, *value[position + 1 :]]
    elif isinstance(value, dict) and len(value) > 1:
        for key in value:
            yield {other: held for other, held in value.items() if other != key}
    elif isinstance(value, int) and not isinstance(value, bool) and value > 40:
        yield from _smaller(value)


def _shorter(value: list[Any]) -> Iterator[list[Any]]:
    """Yield the list without a half, without a smaller part, and, of a few elements, without each."""
    size = len(value) // 2
    while size and size >= len(value) // _FEW:
        for start in range(0, len(value), size):
            yield value[:start] + value[start + size :]
        size //= 2


def _smaller(count: int) -> Iterator[int]:
    """Yield smaller sizes, those at which engines split first."""
    yield from (size for size in (1, 2, 11, 51, 65, 101, 129, 201, 257, 401, 501, 1001, 5001) if size < count)
    if count > 2:
        yield count - 1


def _plainer_items(item: MemoryItem) -> Iterator[MemoryItem]:
    values = item.model_dump()
    for name, plain in {**_DEFAULTS, **_PLAIN, "updated_at": item.created_at}.items():
        if name in values and values[name] != plain:
            plainer = copy_item(item)
            plainer.__dict__[name] = type(values[name])(plain) if name == "status" else plain
            yield plainer
    if item.memory_type != "note" or item.model_extra:
        base = {name: values[name] for name in MemoryItem.model_fields if name not in ("metadata", "memory_type")}
        yield MemoryItem(**base, memory_type="note", metadata=item.metadata)
    for metadata in _plainer_metadata(item.metadata):
        plainer = copy_item(item)
        plainer.__dict__["metadata"] = metadata
        yield plainer


def _plainer_metadata(metadata: MemoryMetadata) -> Iterator[MemoryMetadata]:
    given = {name: getattr(metadata, name) for name in SCOPE_FIELDS if getattr(metadata, name) is not None}
    held: dict[str, Any] = {**given, "namespace": metadata.namespace, "extra": metadata.extra}
    for name in [name for name, value in held.items() if value or name in given]:
        fewer = {other: value for other, value in held.items() if other != name}
        if any(value not in ((), {}) for value in fewer.values()):
            yield MemoryMetadata(**fewer)
    for key in metadata.extra if len(metadata.extra) > 1 else ():
        yield MemoryMetadata(
            **{**held, "extra": {other: metadata.extra[other] for other in metadata.extra if other != key}}
        )
