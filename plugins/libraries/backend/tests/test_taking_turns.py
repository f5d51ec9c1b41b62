"""Whoever reads a large scope lets other threads have their turn, that of the event loop among them."""

from __future__ import annotations

from itertools import pairwise

import pytest

from memoranda_backend.ranking import Added, Passage, ScopeArrays, Weights, rank, scope_arrays


def test_no_more_than_a_thousand_items_are_added_between_two_turns_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = ScopeArrays(Weights().passage)
    seen = [0]
    monkeypatch.setattr(scope_arrays, "give_way", lambda: seen.append(len(arrays)))
    arrays.add([Added(number, Passage(str(number), f"item {number} says little")) for number in range(10_500)])
    seen.append(len(arrays))
    assert max(later - earlier for earlier, later in pairwise(seen)) <= 1_000


def test_finding_out_what_is_telling_gives_way_to_others_too(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = ScopeArrays(Weights().passage)
    arrays.add([Added(number, Passage(str(number), f"I like item {number}")) for number in range(4_500)])
    turns: list[None] = []
    monkeypatch.setattr(scope_arrays, "give_way", lambda: turns.append(None))
    rank(arrays, "", Weights(), limit=5)
    assert len(turns) >= 4
