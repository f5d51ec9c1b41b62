"""The changing half of :class:`Facts`: every change is a single write, and each can be undone."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from memoranda.errors import InputError
from memoranda.trust import Trust
from memoranda_facts.log import Logs
from memoranda_facts.reading import checked_name
from memoranda_facts.records import SAME_AS, Record, Slot
from memoranda_facts.results import (
    Candidate,
    Fact,
    Receipt,
    Sources,
    handle_trust,
    missing_items,
    named_sources,
)
from memoranda_facts.timeline import active_records
from memoranda_facts.values import EVER, Moment, Ref, as_given
from memoranda_facts.writing import Expected, FactWriting, checked_confidence, checked_qualifiers, ids_of


class Changes(FactWriting):
    """Asserting, ending, correcting, merging and undoing."""

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
        depends_on: Expected = (),
        rule: str = "manual",
        key: str | None = None,
        expect: Expected | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Assert that a value holds from ``valid_from`` until ``valid_to``.

        ``valid_from`` is by default the time of the latest source item, or now if there is none; ``".."`` means that it
        has always been so. Both may be coarse: "2026" or "2026-03". ``sources`` are items, ids of items, or "manual".
        ``depends_on`` are facts: when one of them does not hold any more, this one is ``unsure``.

        A change with the same ``key`` is not written twice. By default the key is made of the source items, the rule
        and the value; a change that was undone may then be made again. With ``expect``, FactConflictError is raised
        unless exactly those facts hold in the slot.
        """
        draft = self._draft(
            "set",
            subject,
            predicate,
            rule=rule,
            value=self.schema.value(predicate, value),
            valid_from=as_given(valid_from, "valid_from"),
            valid_to=as_given(valid_to, "valid_to"),
            qualifiers=checked_qualifiers(qualifiers),
            confidence=checked_confidence(confidence),
            depends_on=ids_of(depends_on),
            key=key,
        )
        return await self._one(draft, await self._provenance(sources, trust), expect)

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
        expect: Expected | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Record that a value, or every value of the slot, stopped being true.

        ``at`` is by default the time of the latest source item, or now; a coarse date means its end. ``key``,
        ``expect`` and ``sources`` are those of :meth:`set`. Events do not end: they happened.
        """
        if self.schema.predicate(predicate).kind == "event":
            raise InputError(f"{predicate!r} is an event, which cannot end. Retract or correct it instead.")
        about = None if value is None else self.schema.value(predicate, value)
        draft = self._draft("end", subject, predicate, rule=rule, value=about, valid_to=as_given(at, "at"), key=key)
        return await self._one(draft, await self._provenance(sources, trust), expect)

    async def correct(
        self,
        fact: Fact | str,
        value: object = None,
        *,
        sources: Sources,
        valid_from: Moment | None = None,
        valid_to: Moment | None = None,
        rule: str = "manual",
        key: str | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Record that a fact was never true, and that ``value`` was instead, if it is given.

        The value is valid when the fact was, unless ``valid_from`` or ``valid_to`` says otherwise.
        """
        return await self._about_fact(
            "correct",
            fact,
            sources,
            rule,
            key,
            trust,
            value,
            as_given(valid_from, "valid_from"),
            as_given(valid_to, "valid_to"),
        )

    async def confirm(
        self,
        fact: Fact | str,
        *,
        sources: Sources,
        rule: str = "manual",
        key: str | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Add sources to a fact. It stays when the others are gone, and has the trust of its best source."""
        return await self._about_fact("confirm", fact, sources, rule, key, trust)

    async def retract(
        self,
        fact: Fact | str,
        *,
        sources: Sources,
        rule: str = "manual",
        key: str | None = None,
        trust: str | None = None,
    ) -> Receipt:
        """Take a fact back, without claiming that it was false."""
        return await self._about_fact("retract", fact, sources, rule, key, trust)

    async def merge(
        self, subject: str, other: str, *, sources: Sources, rule: str = "manual", trust: str | None = None
    ) -> Receipt:
        """Record that ``other`` is another name of ``subject``; the facts of both are read as one subject's."""
        if self.schema.subject(checked_name(subject, "subject")) == self.schema.subject(checked_name(other, "other")):
            raise InputError("A subject cannot be merged with itself.", field="other")
        draft = replace(
            self._draft("merge", other, SAME_AS, rule=rule), value=Ref(self.schema.subject(subject)), valid_from=EVER
        )
        receipt = await self._one(draft, await self._provenance(sources, trust), None)
        self._names = None
        return receipt

    async def undo(self, change: Receipt | Fact | str) -> Receipt:
        """Undo a change: by its receipt or its id, or by a fact or the id of an entry that it wrote.

        It is as if the change had never been recorded; changes after it stay. An undo is a change, too, and can be
        undone. Undoing what is undone already changes nothing. What was forgotten with its sources cannot come back.
        Through a handle that is less trusted than the change, it stays, but disputed.
        """
        named = change.change if isinstance(change, Fact) else change.id if isinstance(change, Receipt) else change
        knowledge = await self._knowledge()
        named = knowledge.full_id(named)
        found = [record for record in knowledge.records if named in (record.change, record.id)]
        if not found:
            raise InputError(f"No change or entry has the id {named!r}; it may have been purged.", field="change")
        undone = found[0].change
        found = [record for record in knowledge.records if record.change == undone]
        if found[0].kind == "forget":
            raise InputError("What was forgotten with its sources cannot be undone.", field="change")
        trust = handle_trust(self.store) or Trust.OPERATOR
        drafts = {self._slot(record.subject, record.predicate): record for record in found}
        targets: dict[Slot, list[str]] = {}
        for record in found:
            targets.setdefault(self._slot(record.subject, record.predicate), []).append(record.id)

        def decide(logs: Logs, at: str, fresh: bool) -> list[tuple[Slot, Record]]:
            planned = []
            for slot, record in drafts.items():
                undos = [each for each in logs[slot] if each.undoes == undone and trust <= each.trust]
                if not any(each in active_records(logs[slot]) for each in undos):
                    draft = self._draft("undo", record.subject, record.predicate)
                    draft = replace(draft, undoes=undone, targets=tuple(targets[slot]), change=name, at=at)
                    planned.append((slot, replace(draft, trust=str(trust))))
            return planned

        name = uuid.uuid4().hex
        written, logs = await self._log.append(list(drafts), decide, after=knowledge.latest)
        self._names = None
        if not written:
            earlier = next(record for record in reversed(knowledge.records) if record.undoes == undone)
            return Receipt(earlier.change, "undo", (earlier.id,), earlier.at, new=False)
        return await self._receipt("undo", written, logs)

    async def apply(self, candidates: Sequence[Candidate], *, trust: str | None = None) -> Receipt:
        """Write several candidates as one change, all or none where the store is atomic.

        Each has a key of its source items, its rule and its value, and one whose key is known already is passed over:
        what an interrupted run has left can be applied again. ``trust`` is the most that any of them gets.
        """
        named = [named_sources(candidate.sources) for candidate in candidates]
        held = await self._items([item_id for sources in named for item_id in missing_items(sources)])
        backed = [
            (candidate, self._supported(sources, held, trust))
            for candidate, sources in zip(candidates, named, strict=True)
        ]
        drafts = [(self._proposed(candidate, provenance), candidate, provenance) for candidate, provenance in backed]
        slots = {slot: None for draft, _, _ in drafts for slot in await self._slots(draft)}
        if not slots:
            raise InputError("There are no candidates to apply.", field="candidates")
        name, earlier = uuid.uuid4().hex, dict[str, Record]()

        def decide(logs: Logs, at: str, fresh: bool) -> list[tuple[Slot, Record]]:
            planned: list[tuple[Slot, Record]] = []
            earlier.clear()
            for draft, candidate, provenance in drafts:
                slot = self._slot(draft.subject, draft.predicate)
                before = next((each for each in logs[slot] if each.key == draft.key), None)
                if before is not None:
                    earlier[before.id] = before
                elif not any(each.key == draft.key for other, each in planned if other == slot):
                    planned.append((slot, self._finished(replace(draft, change=name), provenance, at)))
                    if candidate.kind == "correct":
                        planned[-1] = slot, self._aimed(planned[-1][1], candidate, logs, at)
            return planned

        written, logs = await self._log.append(list(slots), decide)
        if not written:
            known = list(earlier.values())
            return Receipt(known[0].change, "apply", tuple(earlier), known[0].at, known[0].rule, new=False)
        return await self._receipt("apply", written, logs)
