"""From a call to an entry: a record is drafted, backed by its sources, and written to the log of its slot."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from memoranda.errors import ConflictError, InputError
from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda_facts.knowledge import dependents
from memoranda_facts.log import Logs, in_order
from memoranda_facts.reading import FactReading, checked_name
from memoranda_facts.records import SAME_AS, ChangeKind, Record, Slot, Source
from memoranda_facts.results import (
    Candidate,
    Fact,
    Provenance,
    Receipt,
    Sources,
    handle_trust,
    missing_items,
    named_sources,
    supported,
)
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import Timeline, active_records
from memoranda_facts.values import EVER, as_given, end_of, same_text, same_value, start_of

Expected = Fact | str | Iterable[Fact | str]
"""The facts, or their ids, that a caller takes to hold in a slot; an empty list for none."""


class FactConflictError(ConflictError):
    """Other facts hold in a slot than the caller expected; nothing was changed."""

    def __init__(self, subject: str, predicate: str) -> None:
        super().__init__(
            f"What holds for {predicate!r} of this subject is not what was expected. Nothing was changed; read it "
            f"again."
        )
        self.subject = subject
        self.predicate = predicate


_KEPT_TIMELINES = 256
"""How many slots keep their timeline and their id from one change to the next."""


class FactWriting(FactReading):
    """How changes are written; :class:`Changes` says which there are."""

    def __init__(self, store: Store, *, schema: Schema | None = None) -> None:
        super().__init__(store, schema=schema)
        self._timelines: dict[tuple[str, str], tuple[list[Record], Timeline]] = {}
        self._slot_of: dict[tuple[str, str], Slot] = {}

    def _draft(self, kind: ChangeKind, subject: str, predicate: str, *, rule: str = "manual", **said: Any) -> Record:
        name = self.schema.subject(checked_name(subject, "subject"))
        declared = self.schema.predicate(checked_name(predicate, "predicate")).name
        if same_text(declared) == SAME_AS and kind in ("set", "end"):
            raise InputError(f"{SAME_AS!r} is what merge() records; call that.", field="predicate")
        return Record("", 0, uuid.uuid4().hex, kind, name, declared, "", rule=checked_name(rule, "rule"), **said)

    def _proposed(self, candidate: Candidate, provenance: Provenance) -> Record:
        draft = self._draft(candidate.kind, candidate.subject, candidate.predicate, rule=candidate.rule)
        value = None if candidate.object is None else self.schema.value(candidate.predicate, candidate.object)
        if value is None and candidate.kind == "set":
            raise InputError("A candidate that sets a fact needs an object.", field="object")
        draft = replace(
            draft,
            value=value,
            valid_from=as_given(candidate.valid_from, "valid_from"),
            valid_to=as_given(candidate.valid_to, "valid_to"),
            qualifiers=checked_qualifiers(candidate.qualifiers),
            confidence=checked_confidence(candidate.confidence),
            doubtful=candidate.doubtful,
        )
        return replace(draft, key=_key_of(draft, provenance) or uuid.uuid4().hex)

    def _aimed(self, draft: Record, candidate: Candidate, logs: Logs, at: str) -> Record:
        """Return a correction with its targets: the value that it replaces, or in a slot of one value what holds."""
        found = self._merged(draft, logs).at(at)
        if draft.value is not None:
            found = [fact for fact in found if same_value(fact.object) != same_value(draft.value)]
        if candidate.replaces is not None:
            replaced = same_value(self.schema.value(candidate.predicate, candidate.replaces))
            found = [fact for fact in found if same_value(fact.object) == replaced]
        elif self.schema.predicate(draft.predicate).kind != "one":
            found = []
        since = draft.valid_from if candidate.valid_from or not found else found[0].valid_from
        return replace(draft, valid_from=since, targets=tuple(entry for fact in found for entry in fact.entries))

    def _slot(self, subject: str, predicate: str) -> Slot:
        slot = self._slot_of.get((subject, predicate))
        if slot is None:
            declared = self.schema.predicate(predicate).name
            slot = Slot.of(self._log.owner, self.schema.subject(subject), declared, self._log.store.derived_id)
            self._slot_of[subject, predicate] = slot
            if len(self._slot_of) > _KEPT_TIMELINES:
                del self._slot_of[next(iter(self._slot_of))]
        return slot

    async def _slots(self, draft: Record) -> list[Slot]:
        """Return the slot of a draft, and those of the other names of its subject."""
        own = self._slot(draft.subject, draft.predicate)
        if draft.predicate == SAME_AS:
            return [own]
        names = (await self._known_names()).all_of(draft.subject)
        if len(names) == 1:
            return [own]
        return list(dict.fromkeys([own, *(self._slot(name, draft.predicate) for name in names)]))

    async def _items(self, ids: Sequence[str]) -> dict[str, Any]:
        return {item.id: item for item in await self._log.store.get_many(ids)} if ids else {}

    async def _provenance(self, sources: Sources, trust: str | None) -> Provenance:
        named = named_sources(sources)
        return self._supported(named, await self._items(missing_items(named)), trust)

    def _supported(
        self, named: Sequence[MemoryItem | Source], held: Mapping[str, MemoryItem], trust: str | None
    ) -> Provenance:
        """Return what sources come to; ``held`` are those that were read."""
        return supported(named, held, handle_trust(self.store), trust)

    def _finished(self, draft: Record, provenance: Provenance, at: str) -> Record:
        """Return a draft with its sources and times. Raises InputError for an end before the start."""
        said = at if provenance.said is None else min(provenance.said, at)
        since, until = draft.valid_from, draft.valid_to
        if draft.kind == "end":
            until = until or said
        elif draft.value is not None and since is None:
            since = said if until is None else _before(said, until)
        if until is not None and since and end_of(until) <= start_of(since):
            raise InputError("A fact cannot end before it begins.", field="valid_to")
        return replace(
            draft, at=at, sources=provenance.sources, trust=str(provenance.trust), valid_from=since, valid_to=until
        )

    async def _one(self, draft: Record, provenance: Provenance, expect: Expected | None) -> Receipt:
        own_key = draft.key is not None
        if not own_key and provenance.item_ids:
            draft = replace(draft, key=_key_of(draft, provenance))
        expected = None if expect is None else ids_of(expect)
        slots = await self._slots(draft)
        earlier: list[Record] = []

        def decide(logs: Logs, at: str, fresh: bool) -> list[tuple[Slot, Record]]:
            log = logs[slots[0]]
            earlier[:] = _keyed(log, draft.key, even_undone=own_key)
            if earlier:
                return []
            if expected is not None and not self._is_as_expected(expected, draft, logs, at):
                if fresh:
                    raise FactConflictError(draft.subject, draft.predicate)
                return []
            return [(slots[0], self._finished(draft, provenance, at))]

        written, logs = await self._log.append(slots, decide)
        if written:
            if draft.depends_on:
                self._dependents = None
            return await self._receipt(draft.kind, written, logs)
        before = [record for record in logs[slots[0]] if in_order(record) < in_order(earlier[0])]
        receipt = await self._receipt(draft.kind, earlier[:1], {**logs, slots[0]: before})
        return replace(receipt, new=False)

    def _is_as_expected(self, expected: Collection[str], draft: Record, logs: Logs, at: str) -> bool:
        holding = self._merged(draft, logs).at(at)
        found = {entry for fact in holding for entry in fact.entries}
        return all(entry in found for entry in expected) and not any(
            all(entry not in expected for entry in fact.entries) for fact in holding
        )

    def _merged(self, about: Record, logs: Logs, written: Iterable[Record] = ()) -> Timeline:
        among = [record for log in logs.values() for record in log] + list(written)
        key = same_text(about.subject), same_text(about.predicate)
        if len(logs) > 1:
            names = {key[0]} if self._names is None else set(map(same_text, self._names.all_of(about.subject)))
            among = [each for each in among if same_text(each.subject) in names and same_text(each.predicate) == key[1]]
            among.sort(key=in_order)
        kept = self._timelines.get(key)
        if kept is None or kept[0] != among:
            kind = self.schema.predicate(about.predicate).kind
            kept = self._timelines[key] = among, Timeline(among, kind, about.subject, about.predicate)
            if len(self._timelines) > _KEPT_TIMELINES:
                del self._timelines[next(iter(self._timelines))]
        return kept[1]

    async def _about_fact(
        self,
        kind: ChangeKind,
        fact: Fact | str,
        sources: Sources,
        rule: str,
        key: str | None,
        trust: str | None,
        value: object = None,
        valid_from: str | None = None,
        valid_to: str | None = None,
    ) -> Receipt:
        """Write a change that is about an existing fact, to the log of every name that it was recorded under."""
        provenance = await self._provenance(sources, trust)
        knowledge = await self._knowledge()
        entry_id = knowledge.full_id(id_of(fact))
        place = knowledge.place(entry_id)
        target = None if place is None else knowledge.fact(entry_id, self._present(knowledge))
        if place is None or target is None:
            raise InputError(f"There is no fact with the id {entry_id!r}.", field="fact")
        seen = fact if isinstance(fact, Fact) else target  # It is about what the caller has seen, and no more.
        by_slot: dict[Slot, list[Record]] = {}
        for record in knowledge.logs[place]:
            if record.id in seen.entries or record.id == target.id:
                by_slot.setdefault(self._slot(record.subject, record.predicate), []).append(record)
        change, first = uuid.uuid4().hex, next(iter(by_slot.values()))[0]
        asserted = None if value is None else self.schema.value(first.predicate, value)
        begun = valid_from or seen.valid_from
        until = valid_to or (None if seen.state in ("superseded", "retracted") else seen.valid_to)
        drafts = {}
        for slot, records in by_slot.items():
            said: dict[str, Any] = {"targets": tuple(record.id for record in records), "key": key}
            if kind == "confirm":
                said |= {name: getattr(records[0], name) for name in ("value", "valid_from", "valid_to")}
            elif asserted is not None and records[0] is first:
                said |= {"value": asserted, "valid_from": begun, "valid_to": until}
            draft = self._draft(kind, records[0].subject, records[0].predicate, rule=rule, **said)
            drafts[slot] = replace(draft, change=change, key=key or _key_of(draft, provenance))
        earlier: list[Record] = []

        def decide(logs: Logs, at: str, fresh: bool) -> list[tuple[Slot, Record]]:
            earlier.clear()
            planned = []
            for slot, draft in drafts.items():
                known = _keyed(logs[slot], draft.key, even_undone=key is not None)
                earlier.extend(known)
                if not known:
                    planned.append((slot, self._finished(draft, provenance, at)))
            return planned

        written, logs = await self._log.append(list(drafts), decide, after=knowledge.latest)
        if written:
            return await self._receipt(kind, written, logs)
        return Receipt(earlier[0].change, kind, (earlier[0].id,), earlier[0].at, earlier[0].rule, new=False)

    def _only_adds(self, record: Record) -> bool:
        """Return True if a record cannot replace anything: it is one of many values."""
        return record.kind == "set" and self.schema.predicate(record.predicate).kind != "one"

    async def _receipt(self, kind: Any, written: Sequence[Record], logs: Logs) -> Receipt:
        entries, at, rule = tuple(record.id for record in written), written[0].at, written[0].rule
        if len(written) == 1 and (not any(logs.values()) or self._only_adds(written[0])):
            return Receipt(written[0].change, kind, entries, at, rule)
        await self._known_names()
        replaced: dict[str, str] = {}
        disputed: dict[str, None] = {}
        for record in {(same_text(each.subject), each.predicate): each for each in written}.values():
            before = self._merged(record, logs).at(at)
            after = {fact.id: fact for fact in self._merged(record, logs, written).at(at)}
            still = {entry for fact in after.values() for entry in fact.entries}
            replaced |= {entry: fact.id for fact in before if fact.id not in after for entry in fact.entries
                         if entry not in still}  # fmt: skip
            doubted = {fact.id for fact in before if fact.state == "disputed"}
            disputed |= {name: None for name, fact in after.items() if fact.state == "disputed" and name not in doubted}
        unsure: list[str] = []
        if replaced:
            unsure = dependents(await self._known_dependents(), replaced)
        return Receipt(
            id=written[0].change,
            kind=kind,
            entries=entries,
            at=at,
            by=rule,
            replaced=tuple(dict.fromkeys(replaced.values())),
            disputed=tuple(disputed),
            unsure=tuple(unsure),
        )


def id_of(fact: Fact | str) -> str:
    """Return the id of a fact."""
    return fact.id if isinstance(fact, Fact) else checked_name(fact, "fact")


def ids_of(expected: Expected) -> tuple[str, ...]:
    """Return the ids of one fact or several, each once."""
    return tuple(dict.fromkeys(map(id_of, [expected] if isinstance(expected, (Fact, str)) else expected)))


def _keyed(log: Sequence[Record], key: str | None, *, even_undone: bool) -> list[Record]:
    """Return the records of a log that have a key; unless ``even_undone``, those that no undo switches off."""
    found = [record for record in log if key is not None and record.key == key]
    return found if even_undone or not found else [record for record in found if record in active_records(log)]


def _key_of(draft: Record, provenance: Provenance) -> str | None:
    """Return the key of a change that items say: which, by which rule, and what; None for what was entered by hand."""
    if not provenance.item_ids:
        return None
    about = None if draft.value is None else same_value(draft.value)
    said = [draft.rule, draft.kind, about, draft.valid_from, draft.valid_to, draft.targets[:1], provenance.item_ids]
    return hashlib.sha256(json.dumps(said).encode()).hexdigest()[:32]


def _before(said: str, until: str) -> str:
    """Return when something began that is known to be over: when it was said, or always if that was later."""
    return said if said < end_of(until) else EVER


def checked_confidence(confidence: float) -> float:
    """Return a confidence. Raises InputError for what is none."""
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)) or not 0 <= confidence <= 1:
        raise InputError("The confidence of a fact is a number from 0 to 1.", field="confidence")
    return float(confidence)


def checked_qualifiers(qualifiers: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return qualifiers as JSON holds them. Raises InputError for what it cannot hold."""
    try:
        return dict(json.loads(json.dumps(dict(qualifiers or {}), allow_nan=False)))
    except (TypeError, ValueError) as error:
        raise InputError("The qualifiers of a fact are a mapping that JSON can hold.", field="qualifiers") from error
