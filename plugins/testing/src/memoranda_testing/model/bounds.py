"""Whether steps stay in a corner of a store that others use: what is made plainer must not reach their memories."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda_testing.model.steps import Call, Cancelled, Many, Step, Together

_BOUNDED = frozenset(
    {
        *("search", "search_ranked", "window", "head", "count", "scan", "owners"),
        *("clear", "pop", "restore", "purge"),
    }
)
"""The methods that reach whatever a filter names; the others name ids or items, which bear the mark."""


def stays_within(step: Step, mark: str) -> bool:
    """Whether a step reads, writes and removes nothing but what bears this mark."""
    return all(_is_bounded(call, mark) and _is_tidy(call, mark) for call in _calls(step))


def _calls(step: Step) -> Iterator[Call]:
    if isinstance(step, Call):
        yield step
    elif isinstance(step, Cancelled):
        yield step.call
    elif isinstance(step, Together):
        yield from step.calls


def _is_bounded(call: Call, mark: str) -> bool:
    if call.method not in _BOUNDED or call.arguments.get("item_id") is not None:
        return True
    asked = call.arguments.get("within" if call.method == "owners" else "metadata")
    return any(_names(metadata, mark) for metadata in (call.scope, asked))


def _names(metadata: MemoryMetadata | None, mark: str) -> bool:
    if metadata is None:
        return False
    named = [getattr(metadata, name) for name in SCOPE_FIELDS]
    return metadata.namespace[:1] == (mark,) or any(value is not None and value.startswith(mark) for value in named)


def _is_tidy(call: Call, mark: str) -> bool:
    """Whether what it stores lies where it is removed from in the end."""
    given = [call.arguments.get(name) for name in ("item", "items", "adds")]
    return all(place[:1] == (mark,) for value in given for place in _places(value))


def _places(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, (MemoryItem, Many)):
        yield value.metadata.namespace
    elif isinstance(value, list):
        for inner in value:
            yield from _places(inner)
