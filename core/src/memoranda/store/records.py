"""Records: items in which a part of memoranda notes what happened, and the rule that nobody else writes them.

A record is believed: a revision says what an item was, a receipt what a model was shown, an item in quarantine why it
is there, a checkpoint where a graph goes on, a session's record its state. So no store takes one from
:meth:`memoranda.store.Store.add` and its relatives, whatever the handle. The code that makes a kind of records says so
with :func:`writing_records`, and whoever copies a store with :func:`copying_records`. An observer may turn an item into
a record: it is asked about everything.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem

RECORD_MAKERS: Mapping[str, str] = {
    "fact-mark": "only the extraction of facts notes what it has read",
    "grant": "only somebody who manages a space gives one",
    "derivation": "only the layer of spaces notes what was made from a space",
    "publication": "only publishing an item makes one",
    "langgraph.checkpoint": "only LangGraph's checkpointer makes one",
    "langgraph.write": "only LangGraph's checkpointer makes one",
    "quarantined": "only the guard keeps an item apart",
    "receipt": "only what shows items to a model makes one",
    "revision": "only a store that keeps revisions makes one",
    "session.record": "only the adapter of a framework makes one",
}
"""The types of records, and who makes them. Records of branches have a rule of their own: see ``fork``."""

_written: ContextVar[frozenset[str]] = ContextVar("memoranda_records", default=frozenset())


@contextmanager
def writing_records(*memory_types: str) -> Iterator[None]:
    """Let stores take records of these types meanwhile. For the code that makes them.

    Other types may be named, too, where observers tell apart who writes them: a compaction names its summaries.
    """
    token = _written.set(_written.get() | {*memory_types})
    try:
        yield
    finally:
        _written.reset(token)


@contextmanager
def copying_records(store: Any) -> Iterator[None]:
    """Let a store or handle take records of all types meanwhile, for copies of what another store made.

    A handle with a trust copies none: it writes for somebody who is not believed.
    """
    with writing_records(*(RECORD_MAKERS if getattr(store, "trust", None) is None else ())):
        yield


def is_being_written(memory_type: str) -> bool:
    """Return True while records of this type are written by their maker, or copied from another store."""
    return memory_type in _written.get()


def is_from_maker(item: MemoryItem) -> bool:
    """Return True while the code that makes items of this type writes them; for observers, which judge others."""
    return is_being_written(item.memory_type)


def check_record(item: MemoryItem) -> None:
    """Raise InputError for a record that is written by somebody else than its maker."""
    kind = item.memory_type
    if kind in RECORD_MAKERS and kind not in _written.get():
        raise InputError(
            f"The item {item.id!r} was not stored: its memory_type is {kind!r}, and {RECORD_MAKERS[kind]}. To copy the "
            f"records of another store, use 'memoranda copy' or 'memoranda import'.",
            field="memory_type",
        )
