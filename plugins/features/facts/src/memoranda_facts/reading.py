"""The reading half of :class:`Facts`."""

from __future__ import annotations

from memoranda.errors import InputError
from memoranda.loops import LoopLock
from memoranda.offloading import offload
from memoranda.store import Store
from memoranda.trust import Trust, check_trust
from memoranda_facts.dates import Moment, last_moment_of
from memoranda_facts.knowledge import Knowledge, Names
from memoranda_facts.log import Log
from memoranda_facts.records import DEPENDS, MERGES, Record
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.values import same_text


class FactReading:
    """What holds, what held, and what was believed."""

    def __init__(self, store: Store, *, schema: Schema | None = None) -> None:
        self.store = store
        self.schema = Schema() if schema is None else schema
        self._log = Log(store)
        self._newest = Knowledge([], self.schema)
        self._following = LoopLock()
        self._names: Names | None = None
        self._dependents: list[Record] | None = None
        self._trusted: tuple[Knowledge, Trust | None, Knowledge] | None = None
        """What was last known from sources of a trust, and of which knowledge that is a part."""

    async def current(
        self, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what holds now, disputed and unsure facts among it, each with its state.

        A subject and a predicate go by any of their names. With ``min_trust``, nothing that is less trusted has any
        influence. Of disputed facts, the most trusted and then the latest comes first.
        """
        return await self.state(subject=subject, predicate=predicate, min_trust=min_trust)

    async def at(
        self, moment: Moment, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what held at a moment, as it is known now; a coarse date means its last moment."""
        return await self.state(valid=moment, subject=subject, predicate=predicate, min_trust=min_trust)

    async def known(
        self, moment: Moment, subject: str | None = None, predicate: str | None = None, *, min_trust: str | None = None
    ) -> list[Fact]:
        """Return what was believed at a moment to hold then."""
        return await self.state(valid=moment, known=moment, subject=subject, predicate=predicate, min_trust=min_trust)

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
        asked = None if valid is None else last_moment_of(valid, "valid")
        knowledge = await self._knowledge(known, min_trust)
        found = knowledge.at(self._present(knowledge) if asked is None else asked)
        return _about(found, knowledge, subject, predicate)

    async def history(self, subject: str | None = None, predicate: str | None = None) -> list[Fact]:
        """Return every value of a slot, oldest first: superseded, ended and retracted ones too.

        Without a subject or a predicate, of every slot, one after the other.
        """
        knowledge = await self._knowledge()
        now = self._present(knowledge)
        found = [fact for key in knowledge.timelines for fact in knowledge.of_slot(key, now, history=True)]
        return _about(found, knowledge, subject, predicate)

    async def get(self, entry_id: str) -> Fact | None:
        """Return the fact that an entry is part of, as it stands now; None if there is none."""
        knowledge = await self._knowledge()
        return knowledge.fact(knowledge.full_id(entry_id), self._present(knowledge))

    def _present(self, knowledge: Knowledge) -> str:
        """Return the present; the clock by which the latest entry was recorded may be ahead of ours."""
        return max(self._log.now(), knowledge.latest)

    async def _knowledge(self, known: Moment | None = None, min_trust: str | None = None) -> Knowledge:
        """Return what is known now, or was known at a moment, from sources that are trusted so far."""
        upto = None if known is None else last_moment_of(known, "known")
        least = None if min_trust is None else check_trust(min_trust, "min_trust")
        await self._before_reading()
        newest = await self._knowledge_of_rows()
        if upto is None and least is None:
            return newest
        if upto is None and self._trusted is not None and self._trusted[:2] == (newest, least):
            return self._trusted[2]
        records = [
            record
            for record in newest.records
            if (upto is None or record.at <= upto)
            and (least is None or record.kind in ("undo", "forget") or least <= record.trust)
        ]
        found = Knowledge(records, self.schema, earlier=newest)
        if upto is None:
            self._trusted = newest, least, found
        return found

    async def _knowledge_of_rows(self) -> Knowledge:
        """Return what is known now; it is computed again only where the stored entries have changed."""
        async with self._following.held():
            new = await self._log.follow()
            if new is None or new:
                count = self._log.size if new is None else len(new)
                self._newest = known = await offload(count, self._thought_over, new)
                self._names = known.names
                self._dependents = known.depending
            return self._newest

    def _thought_over(self, new: list[Record] | None) -> Knowledge:
        """Return what is known with new records; if others have changed, from all of them."""
        grown = None if new is None else self._newest.with_new(new)
        return Knowledge(self._log.records(), self.schema, earlier=self._newest) if grown is None else grown

    async def _before_reading(self) -> None:
        """Do what is due before facts are read."""

    async def _known_names(self) -> Names:
        """Return which names mean the same subject, as was last read."""
        if self._names is None:
            merged = await self._log.rows(**{MERGES: True})
            # How far a merge counts depends on all that is known of its subjects.
            self._names = (await self._knowledge_of_rows()).names if merged else Names(self.schema)
        return self._names

    async def _known_dependents(self) -> list[Record]:
        """Return the records that depend on others, as was last read."""
        if self._dependents is None:
            self._dependents = self._log.parsed(await self._log.rows(**{DEPENDS: True}))
        return self._dependents


def _about(facts: list[Fact], knowledge: Knowledge, subject: str | None, predicate: str | None) -> list[Fact]:
    """Return a copy of the list with those of a subject and a predicate."""
    if subject is not None:
        wanted = knowledge.names.root(checked_name(subject, "subject"))
        facts = [fact for fact in facts if knowledge.names.root(fact.subject) == wanted]
    if predicate is not None:
        name = knowledge.schema.predicate(checked_name(predicate, "predicate")).name
        facts = [fact for fact in facts if same_text(fact.predicate) == same_text(name)]
    return list(facts)


def checked_name(name: str, field: str) -> str:
    """Return a name without surrounding spaces. Raises InputError if it is none."""
    if not isinstance(name, str) or not name.strip():
        raise InputError(f"A {field} is a text that is not empty.", field=field)
    return name.strip()
