"""The face of this package: reading and changing what is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store import BaseStore
from memoranda_facts.candidates import Candidate
from memoranda_facts.dates import Moment
from memoranda_facts.records import Source
from memoranda_facts.results import Fact, Receipt, Why
from memoranda_facts.schema import Schema

Sources = str | MemoryItem | Source | Iterable[MemoryItem | Source | str]
"""What supports a change: items, ids of items, :class:`Source` with spans, or the word "manual"."""


class Facts:
    """What is known of one user, and how it came to be known.

    The handle decides whose facts these are: they belong to its user and agent, whatever its session and task. Every
    change returns a :class:`Receipt`, which :meth:`undo` takes.
    """

    def __init__(self, store: BaseStore, *, schema: Schema | None = None) -> None:
        self.store = store
        self.schema = schema or Schema()

    async def set(
        self,
        subject: str,
        predicate: str,
        value: object,
        *,
        sources: Sources,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        qualifiers: Mapping[str, Any] | None = None,
        confidence: float = 1.0,
        depends_on: Iterable[Fact | str] = (),
        rule: str = "manual",
        key: str | None = None,
        expect: Fact | str | Iterable[Fact | str] | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Assert that a value holds, from ``valid_from`` (by default, when it was said) to ``valid_to``."""
        raise NotImplementedError

    async def end(
        self,
        subject: str,
        predicate: str,
        value: object = None,
        *,
        sources: Sources,
        at: Moment | None = None,
        rule: str = "manual",
        key: str | None = None,
        expect: Fact | str | Iterable[Fact | str] | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Record that a value, or every value of the slot, stopped being true at a moment; by default now."""
        raise NotImplementedError

    async def correct(
        self, fact: Fact | str, value: object = None, *, sources: Sources, rule: str = "manual", key: str | None = None
    ) -> Receipt:
        """Record that a fact was never true, and that ``value`` was instead, if it is given."""
        raise NotImplementedError

    async def confirm(self, fact: Fact | str, *, sources: Sources, rule: str = "manual") -> Receipt:
        """Add sources to a fact."""
        raise NotImplementedError

    async def retract(self, fact: Fact | str, *, sources: Sources, rule: str = "manual") -> Receipt:
        """Take a fact back, without claiming that it was false."""
        raise NotImplementedError

    async def merge(self, subject: str, other: str, *, sources: Sources, rule: str = "manual") -> Receipt:
        """Record that ``other`` is another name of ``subject``."""
        raise NotImplementedError

    async def undo(self, change: Receipt | Fact | str) -> Receipt:
        """Undo a change, by its receipt or its id; an undo can be undone in turn."""
        raise NotImplementedError

    async def apply(self, candidates: Sequence[Candidate], *, trust: str | None = None) -> Receipt:
        """Write several candidates as one change. Those whose source and rule were applied before are passed over."""
        raise NotImplementedError

    async def current(
        self, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what holds now, disputed and unsure facts among it."""
        raise NotImplementedError

    async def at(self, moment: Moment, subject: str | None = None, predicate: str | None = None) -> list[Fact]:
        """Return what held at a moment, as it is known now."""
        raise NotImplementedError

    async def known(self, moment: Moment, subject: str | None = None, predicate: str | None = None) -> list[Fact]:
        """Return what was believed to hold at a moment, as it was known then."""
        raise NotImplementedError

    async def state(
        self,
        *,
        valid: Moment | None = None,
        known: Moment | None = None,
        subject: str | None = None,
        predicate: str | None = None,
        min_trust: str | None = None,
    ) -> list[Fact]:
        """Return what held at ``valid``, as it was known at ``known``; both are now by default."""
        raise NotImplementedError

    async def history(self, subject: str, predicate: str) -> list[Fact]:
        """Return every value of a slot, oldest first, superseded, ended and retracted ones too."""
        raise NotImplementedError

    async def why(self, fact: Fact | str) -> Why:
        """Return the sources of a fact, the rule that proposed it, and what it replaced."""
        raise NotImplementedError

    async def search(self, query: str, *, limit: int = 10, history: bool = False) -> list[Fact]:
        """Return the facts that answer a query, best first; nothing if none does."""
        raise NotImplementedError

    async def follow(self, subject: str, *predicates: str) -> list[Fact]:
        """Walk from a subject along references, and return the facts of the last predicate."""
        raise NotImplementedError

    async def profile(self, *, tokens: int = 200, subject: str | None = None) -> str:
        """Return what holds now as a compact text, pinned predicates first."""
        raise NotImplementedError

    async def reconcile(self) -> Receipt:
        """Take back facts whose sources are gone."""
        raise NotImplementedError
