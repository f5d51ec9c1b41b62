"""All that the logs of an owner say: names, slots and their timelines, as known at one moment."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace

from memoranda.trust import Trust
from memoranda_facts.log import in_order
from memoranda_facts.records import SAME_AS, Record, short_id
from memoranda_facts.results import Fact
from memoranda_facts.schema import Schema
from memoranda_facts.timeline import Timeline, active_records
from memoranda_facts.values import AFTER_ALL, Ref, same_text

Key = tuple[str, str]
"""A subject and a predicate, in the form in which they are compared."""


class Names:
    """Which names mean the same subject: those that the schema lists, and those that were merged.

    A merge that is less trusted than what is known of either subject does not count, as long as it is.
    """

    def __init__(self, schema: Schema, records: Iterable[Record] = ()) -> None:
        self._schema = schema
        self._shown: dict[str, str] = {}
        self._parents: dict[str, str] = {}
        logs: dict[str, list[Record]] = {}
        ranks: dict[str, int] = {}
        recorded = list(records)
        for record in recorded:
            if record.predicate == SAME_AS:
                logs.setdefault(self._key(record.subject), []).append(record)
        for record in active_records(recorded) if logs else ():
            key = self._key(record.subject)
            if record.predicate != SAME_AS and record.kind in ("set", "correct", "confirm"):
                ranks[key] = max(record.rank, ranks.get(key, 0))
        for key, log in logs.items():
            for fact in Timeline(log, "one", key, SAME_AS).at(log[-1].at)[:1]:
                parent = self._key(fact.object.subject) if isinstance(fact.object, Ref) else key
                if parent != key and Trust(fact.trust).rank >= max(ranks.get(key, 0), ranks.get(parent, 0)):
                    self._parents[key] = parent

    def same_as(self, other: Names) -> bool:
        """Return True if both mean the same by every name."""
        return self._parents == other._parents

    def _key(self, name: str) -> str:
        name = self._schema.subject(name)
        key = same_text(name)
        self._shown.setdefault(key, name)
        return key

    def root(self, name: str) -> str:
        """Return the name that a subject goes by, in the form in which names are compared.

        Of names that were merged in a circle, it is the first in the alphabet.
        """
        key = self._key(name)
        path: list[str] = []
        while key in self._parents:
            if key in path:
                return min(path[path.index(key) :])
            path.append(key)
            key = self._parents[key]
        return key

    def display_name(self, name: str) -> str:
        """Return the name that a subject goes by."""
        return self._shown[self.root(name)]

    def all_of(self, name: str) -> list[str]:
        """Return every name of a subject, the given one first."""
        if not self._parents:
            return [self._schema.subject(name)]
        root = self.root(name)
        merged = [self._shown[key] for key in self._parents if self.root(key) == root]
        return list(dict.fromkeys([self._schema.subject(name), self._shown[root], *merged]))


class Knowledge:
    """What some records come to. ``earlier`` is what others did, whose timelines are used again where logs agree."""

    def __init__(self, records: Iterable[Record], schema: Schema, *, earlier: Knowledge | None = None) -> None:
        self.records = sorted(records, key=in_order)
        self.latest = self.records[-1].at if self.records else ""
        self.schema: Schema = schema
        self.names: Names = Names(schema, self.records)
        self._keys: dict[Key, Key] = {}
        if earlier is not None and earlier.schema is schema and earlier.names.same_as(self.names):
            self.names, self._keys = earlier.names, earlier._keys
        self.logs: dict[Key, list[Record]] = {}
        for record in self.records:
            spelled = record.subject, record.predicate
            key = self._keys.get(spelled)
            if key is None:
                key = self._keys[spelled] = self.key(*spelled)
            self.logs.setdefault(key, []).append(record)
        known = {} if earlier is None or earlier.schema is not schema else earlier.timelines
        kept = {} if earlier is None else earlier.logs
        self.timelines: Mapping[Key, Timeline] = {
            key: known[key] if kept.get(key) == log and key in known else self._timeline(log)
            for key, log in self.logs.items()
        }
        self.depending = [record for record in self.records if record.depends_on]
        self._places: dict[str, Key] | None = None
        self._view: tuple[str, str, list[Fact]] | None = None
        self._sources: dict[str, list[tuple[int, Timeline]]] | None = None
        self._has_merges = any(record.predicate == SAME_AS for record in self.records)

    def with_new(self, records: Iterable[Record]) -> Knowledge | None:
        """Return what is known with records that come after all others; None if all has to be thought over.

        A merge may change what any other record is about, and so does whatever was recorded in another order.
        """
        new = sorted(records, key=in_order)
        merges = self._has_merges or any(record.predicate == SAME_AS for record in new)
        if merges or (new and self.records and in_order(new[0]) <= in_order(self.records[-1])):
            return None
        grown = copy(self)
        grown.records = [*self.records, *new]
        grown.latest = grown.records[-1].at if grown.records else ""
        grown.logs, changed = dict(self.logs), dict[Key, list[Record]]()
        for record in new:
            key = self.key(record.subject, record.predicate)
            if key not in changed:
                changed[key] = grown.logs[key] = list(self.logs.get(key, ()))
            changed[key].append(record)
        grown.timelines = {**self.timelines, **{key: grown._timeline(log) for key, log in changed.items()}}
        grown.depending = [*self.depending, *(record for record in new if record.depends_on)]
        grown._view = grown._sources = None
        if self._places is not None:
            grown._places = {**_places(changed), **self._places}
        return grown

    def key(self, subject: str, predicate: str) -> Key:
        """Return the key of a slot, by any of its names. A merge is about a name, not about who has it."""
        if predicate == SAME_AS:
            return same_text(self.schema.subject(subject)), SAME_AS
        return self.names.root(subject), same_text(self.schema.predicate(predicate).name)

    def _timeline(self, log: Sequence[Record]) -> Timeline:
        declared = self.schema.predicate(log[0].predicate)
        subject = log[0].subject if declared.name == SAME_AS else self.names.display_name(log[0].subject)
        return Timeline(log, declared.kind, subject, declared.name)

    def place(self, entry_id: str) -> Key | None:
        if self._places is None:
            self._places = _places(self.logs)
        return self._places.get(entry_id)

    def full_id(self, given: str) -> str:
        """Return the id of an entry that is given in full or in short; anything else as it is."""
        if given.startswith("fact-") or given.count("-") != 1:
            return given
        named = [record.id for record in self.records if short_id(record.id) == given]
        return named[0] if len(named) == 1 else given

    def at(self, moment: str) -> list[Fact]:
        if self._view is not None and self._view[0] <= moment < self._view[1]:
            return self._view[2]
        found = []
        since, until = "", AFTER_ALL
        for key, timeline in self.timelines.items():
            place = bisect_right(timeline.edges, moment)
            if place and timeline.edges[place - 1] > since:
                since = timeline.edges[place - 1]
            if place < len(timeline.edges) and timeline.edges[place] < until:
                until = timeline.edges[place]
            if key[1] != SAME_AS:
                found += timeline.at(moment)
        if self.depending:
            found = [self.settled(fact, moment) for fact in found]
        self._view = since, until, found
        return found

    def span(self, moment: str) -> tuple[str, str]:
        """Return since when and until when nothing begins or ends to hold, around a moment."""
        self.at(moment)
        assert self._view is not None, "at() has set it"
        return self._view[:2]

    def saying(self, item_ids: Iterable[str]) -> list[Timeline]:
        if self._sources is None:
            self._sources = {}
            for place, timeline in enumerate(self.timelines.values()):
                for item_id in timeline.sources() if timeline.predicate != SAME_AS else ():
                    self._sources.setdefault(item_id, []).append((place, timeline))
        found = dict(pair for item_id in item_ids for pair in self._sources.get(item_id, ()))
        return [found[place] for place in sorted(found)]

    def of_slot(self, key: Key, moment: str, *, history: bool = False) -> list[Fact]:
        """Return the facts of a slot at a moment; with ``history``, all that it ever had, as they stand then."""
        timeline = self.timelines.get(key)
        if timeline is None or key[1] == SAME_AS:
            return []
        found = timeline.history(moment) if history else timeline.at(moment)
        return [self.settled(fact, moment) for fact in found] if self.depending else found

    def settled(self, fact: Fact, moment: str) -> Fact:
        """Return a fact as ``unsure`` if one that it depends on does not hold at a moment."""
        unsure = fact.state == "holds" and not self._is_supported(fact, moment, {fact.id})
        return replace(fact, state="unsure") if unsure else fact

    def _is_supported(self, fact: Fact, moment: str, asked: set[str]) -> bool:
        return all(self._holds(parent, moment, asked) for parent in fact.depends_on if parent not in asked)

    def _holds(self, entry_id: str, moment: str, asked: set[str]) -> bool:
        key = self.place(entry_id)
        timeline = None if key is None else self.timelines[key]
        run = None if timeline is None else timeline.run_of(entry_id, moment)
        if timeline is None or run is None or run.state(moment) != "holds":
            return False
        return self._is_supported(timeline.fact(run, "holds"), moment, {*asked, entry_id})

    def fact(self, entry_id: str, moment: str) -> Fact | None:
        """Return the fact that an entry is part of, as it stands at a moment, or as history shows it."""
        key = self.place(entry_id)
        if key is None:
            return None
        timeline = self.timelines[key]
        run = timeline.run_of(entry_id, moment)
        if run is not None:
            return self.settled(timeline.fact(run, run.state(moment)), moment)
        return next((fact for fact in reversed(timeline.history(moment)) if entry_id in fact.entries), None)

    def dependents(self, ended: Iterable[str]) -> list[str]:
        return dependents(self.records, ended)


def _places(logs: Mapping[Key, Sequence[Record]]) -> dict[str, Key]:
    """Return the slot that each entry belongs to, and each that another one stands for."""
    confirmed = [(key, each) for key, log in logs.items() for each in log if each.kind == "confirm"]
    places = {target: key for key, each in confirmed for target in each.targets}
    return places | {record.id: key for key, log in logs.items() for record in log}


def dependents(records: Iterable[Record], ended: Iterable[str]) -> list[str]:
    """Return which of some records depend on others, or on such as do, by id."""
    children: dict[str, list[str]] = {}
    for record in records:
        for parent in record.depends_on:
            children.setdefault(parent, []).append(record.id)
    found: dict[str, None] = {}
    waiting = list(ended)
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found[child] = None
                waiting.append(child)
    return list(found)
