"""Random histories of a slot, compared with an oracle that decides every moment by itself."""

from __future__ import annotations

import random
from typing import Any, Literal

from facts_kit.case import FactsCases
from facts_kit.oracle import FOREVER, Entry, Oracle
from memoranda.store import Store
from memoranda.trust import Trust
from memoranda_facts import Fact, Facts
from memoranda_testing.expect import equal

KINDS: dict[Literal["one", "many", "event"], str] = {"one": "lives_in", "many": "owns", "event": "visited"}
YEARS = [f"{year}-01-01T00:00:00.000000+00:00" for year in range(2010, 2018)]
VALUES = ("Paris", "Rome", "Oslo")
LENGTH = 9


class _Player:
    """Makes random changes of one slot and writes down, for the oracle, what each of them was."""

    def __init__(self, facts: Facts, kind: Literal["one", "many", "event"], source: random.Random) -> None:
        self.facts, self.kind, self.random = facts, kind, source
        self.predicate = KINDS[kind]
        self.history: list[Entry] = []
        self.numbers: dict[str, int] = {}

    async def change(self) -> None:
        """Make a change and write it down."""
        known = await self.facts.history("Ada", self.predicate)
        kinds = ["set", "set", "set"] + (["end"] if self.kind != "event" else [])
        kinds += ["correct", "confirm", "retract", "undo", "undo"] if known else []
        kind: Any = self.random.choice(kinds)
        rank = self.random.choice([3, 3, 3, 1, 4])
        given: dict[str, Any] = {"sources": "manual", "trust": list(Trust)[rank]}
        start, end = sorted(self.random.sample(YEARS, 2))
        noted: dict[str, Any] = {"rank": rank}
        value: str | None
        if kind == "undo":
            undone = self.random.choice(self.history).change
            receipt = await self.facts.undo(undone)
            if not receipt.new:
                return
            noted = {"undoes": undone, "rank": Trust.OPERATOR.rank}
        elif kind == "set":
            until = self.random.choice([None, None, end]) if self.kind != "event" else None
            value = self.random.choice(VALUES)
            receipt = await self.facts.set("Ada", self.predicate, value, valid_from=start, valid_to=until, **given)
            noted |= {"value": value, "start": start, "end": until or FOREVER}
        elif kind == "end":
            about: str | None = self.random.choice([None, *VALUES])
            receipt = await self.facts.end("Ada", self.predicate, about, at=start, **given)
            noted |= {"value": about, "end": start}
        else:
            receipt, further = await self._about(self.random.choice(known), kind, given)
            noted |= further
        self.numbers[receipt.entries[0]] = len(self.history)
        self.history.append(Entry(len(self.history), receipt.id, kind, receipt.at, **noted))

    async def _about(self, fact: Fact, kind: str, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        noted: dict[str, Any] = {}
        if kind == "correct":
            value = self.random.choice([None, *VALUES])
            start, end = sorted(self.random.sample(YEARS, 2))
            until = None if self.kind == "event" else end
            receipt = await self.facts.correct(fact, value, valid_from=start, valid_to=until, **given)
            noted = {"value": value, "start": start, "end": until or FOREVER}
        elif kind == "confirm":
            receipt = await self.facts.confirm(fact, **given)
        else:
            receipt = await self.facts.retract(fact, **given)
        return receipt, {**noted, "targets": tuple(self.numbers[entry] for entry in fact.entries)}

    def named(self, fact: Fact) -> str:
        """Return what the oracle calls a fact."""
        return f"{fact.object} {fact.valid_from}" if self.kind == "event" else str(fact.object)


class HistoryCases(FactsCases):
    """What any history comes to."""

    async def test_histories_of_one_value_agree_with_the_oracle(self, store: Store) -> None:
        """What held and what was believed is as the rules say, for every pair of moments."""
        await self._compare(store, "one")

    async def test_histories_of_many_values_agree_with_the_oracle(self, store: Store) -> None:
        """What held and what was believed is as the rules say, for every pair of moments."""
        await self._compare(store, "many")

    async def test_histories_of_events_agree_with_the_oracle(self, store: Store) -> None:
        """What happened and what was believed is as the rules say, for every pair of moments."""
        await self._compare(store, "event")

    async def _compare(self, store: Store, kind: Literal["one", "many", "event"]) -> None:
        for number in range(60 if self.thorough else 3):
            source = random.Random(f"{self.seed} {kind} {number}")
            player = _Player(self.facts(self.handle(store)), kind, source)
            for _ in range(LENGTH):
                await player.change()
            moments = [entry.at for entry in player.history]
            for known in moments if self.thorough else [moments[-1], *source.sample(moments, 2)]:
                oracle = Oracle(kind, player.history, known)
                for valid in YEARS if self.thorough else source.sample(YEARS, 3):
                    found = await player.facts.state(valid=valid, known=known)
                    shown = {player.named(fact): fact.state for fact in found}
                    equal(shown, oracle.states(valid), f"history {number}: {valid} as it was known at {known}")
