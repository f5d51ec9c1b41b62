"""The fold of a slot's log, against a naive oracle that decides every moment by itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from facts_kit.oracle import FOREVER, Entry, Oracle
from memoranda_facts.records import Record
from memoranda_facts.results import Fact
from memoranda_facts.timeline import LEVELS, Timeline

MOMENTS = [f"20{year:02}-01-01T00:00:00.000000+00:00" for year in range(10, 20)]
VALUES = ["Paris", "Rome", "Oslo"]


def recorded(entry: Entry) -> Record:
    """Return the record that says the same as an entry of the oracle."""
    is_end = entry.kind == "end"
    return Record(
        id=f"fact-x-{entry.number}",
        number=entry.number,
        change=entry.change,
        kind=entry.kind,
        subject="Ada",
        predicate="lives_in",
        at=entry.at,
        value=entry.value,
        valid_from=None if is_end else entry.start or None,
        valid_to=None if entry.end == FOREVER else entry.end,
        targets=tuple(f"fact-x-{target}" for target in entry.targets),
        undoes=entry.undoes,
        trust=LEVELS[entry.rank],
    )


def named(fact: Fact, kind: str) -> str:
    """Return what the oracle calls a fact."""
    return f"{fact.object} {fact.valid_from}" if kind == "event" else str(fact.object)


@st.composite
def histories(draw: st.DrawFn) -> list[Entry]:
    """Draw the history of a slot: every kind of change, in any order of time, some in the same change."""
    entries: list[Entry] = []
    at = change = 0
    for number in range(1, draw(st.integers(1, 8)) + 1):
        if not entries or draw(st.integers(0, 4)):
            at, change = at + 1, change + 1
        earlier = [entry for entry in entries if entry.change != f"c{change}"]
        asserting = [entry.number for entry in earlier if entry.kind in ("set", "correct")]
        kinds = ["set", "set", "set", "end"]
        kinds += ["correct", "confirm", "retract"] if asserting else []
        kinds += ["undo", "undo"] if earlier else []
        kind: Any = draw(st.sampled_from(kinds))
        start, end = sorted(draw(st.lists(st.sampled_from(MOMENTS), min_size=2, max_size=2, unique=True)))
        fields: dict[str, Any] = {"start": start, "end": draw(st.sampled_from([FOREVER, FOREVER, end]))}
        if kind == "end":
            fields = {"end": start, "value": draw(st.sampled_from([None, *VALUES]))}
        elif kind == "undo":
            fields = {"undoes": draw(st.sampled_from(sorted({entry.change for entry in earlier})))}
        elif kind == "set":
            fields["value"] = draw(st.sampled_from(VALUES))
        else:
            fields["targets"] = tuple({draw(st.sampled_from(asserting)) for _ in range(draw(st.integers(1, 2)))})
            fields["value"] = draw(st.sampled_from([None, *VALUES])) if kind == "correct" else None
        rank = draw(st.sampled_from([3, 3, 3, 1, 4]))
        entries.append(Entry(number, f"c{change}", kind, MOMENTS[at], rank=rank, **fields))
    return entries


@pytest.mark.parametrize("kind", ["one", "many", "event"])
@settings(max_examples=60, deadline=None)
@given(history=histories())
def test_every_pair_of_moments_is_as_the_oracle_decides(kind: Any, history: list[Entry]) -> None:
    for known in sorted({entry.at for entry in history}):
        oracle = Oracle(kind, history, known)
        timeline = Timeline([recorded(entry) for entry in history if entry.at <= known], kind, "Ada", "lives_in")
        for valid in MOMENTS:
            found = {named(fact, kind): fact.state for fact in timeline.at(valid)}
            assert found == oracle.states(valid), (valid, known)
