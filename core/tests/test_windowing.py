"""How much of a conversation is shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda.errors import InputError
from memoranda.items import SummaryMemory
from memoranda.windowing import check_rounds, last_rounds, newest, rounds_within
from memoranda.windowing import rounds_of as positions_of

KINDS: dict[str, type[MemoryItem]] = {
    "S": SystemMemory,
    "H": HumanMemory,
    "A": AIMemory,
    "T": ToolMemory,
    "Y": SummaryMemory,
}
HISTORIES = st.text(st.sampled_from("SHAATY"), max_size=14)


def conversation(shape: str) -> list[MemoryItem]:
    """Return items of these kinds; each says where it stands."""
    return [KINDS[kind](content=f"{kind}{position}") for position, kind in enumerate(shape)]


def said(items: Sequence[MemoryItem]) -> list[str]:
    return [item.content for item in items]


def rounds_of(items: Sequence[MemoryItem]) -> list[list[MemoryItem]]:
    """The oracle: cut before every human item but the first."""
    rounds: list[list[MemoryItem]] = []
    humans = 0
    for item in items:
        humans += item.memory_type == "human"
        if not rounds or (item.memory_type == "human" and humans > 1):
            rounds.append([])
        rounds[-1].append(item)
    return rounds


@pytest.mark.parametrize(
    ("shape", "rounds", "wanted"),
    [
        ("SHAHA", 1, ["S0", "H3", "A4"]),
        ("SHAHA", 2, ["S0", "H1", "A2", "H3", "A4"]),
        ("SHAHA", 9, ["S0", "H1", "A2", "H3", "A4"]),
        ("SHAHA", 0, ["S0"]),
        ("HASHA", 1, ["S2", "H3", "A4"]),
        ("HSAHA", 1, ["S1", "H3", "A4"]),
        ("AAHA", 1, ["A0", "A1", "H2", "A3"]),
        ("HAHAS", 1, ["H2", "A3", "S4"]),
        ("HATA", 1, ["H0", "A1", "T2", "A3"]),
        ("HH", 1, ["H1"]),
        ("AA", 1, ["A0", "A1"]),
        ("YHAHA", 1, ["Y0", "H3", "A4"]),
        ("", 1, []),
        ("S", 0, ["S0"]),
    ],
)
def test_the_last_rounds_are_kept(shape: str, rounds: int, wanted: list[str]) -> None:
    assert said(last_rounds(conversation(shape), rounds)) == wanted


@given(HISTORIES, st.integers(0, 6))
def test_last_rounds_are_whole_and_lose_no_system_item(shape: str, rounds: int) -> None:
    items = conversation(shape)
    cut = rounds_of([item for item in items if item.memory_type not in ("system", "summary")])
    kept = cut[-rounds:] if rounds else []
    inside = [item.id for each in kept for item in each]
    wanted = [item for item in items if item.id in inside or item.memory_type in ("system", "summary")]
    assert said(last_rounds(items, rounds)) == said(wanted)


@given(HISTORIES)
def test_every_round_but_the_first_starts_with_a_human(shape: str) -> None:
    items = conversation(shape)
    turns = [item for item in items if item.memory_type not in ("system", "summary")]
    found = [[items[position] for position in positions] for positions in positions_of(items)]
    assert found == rounds_of(turns)


@pytest.mark.parametrize("rounds", [-1, 1.5, "2", None, True])
def test_a_bad_number_of_rounds_is_refused(rounds: Any) -> None:
    with pytest.raises(InputError) as raised:
        check_rounds(rounds)
    assert raised.value.field == "max_rounds"
    with pytest.raises(InputError):
        last_rounds([], rounds)


def ten(item: MemoryItem) -> int:
    """Every item costs ten tokens."""
    del item
    return 10


@pytest.mark.parametrize(
    ("shape", "budget", "wanted"),
    [
        ("SHAHA", 50, ["S0", "H1", "A2", "H3", "A4"]),
        ("SHAHA", 49, ["S0", "H3", "A4"]),
        ("SHAHA", 30, ["S0", "H3", "A4"]),
        ("SHAHA", 29, ["S0"]),
        ("SHAHA", 0, ["S0"]),
        ("HAHAAAAHA", 39, ["H7", "A8"]),
        ("HASHA", 30, ["S2", "H3", "A4"]),
        ("", 10, []),
    ],
)
def test_as_many_newest_rounds_as_fit_are_kept(shape: str, budget: int, wanted: list[str]) -> None:
    assert said(rounds_within(conversation(shape), budget, ten)) == wanted


def test_a_round_that_does_not_fit_ends_the_window() -> None:
    items = conversation("HAHAHA")
    costs = dict(zip((item.id for item in items), (1, 1, 50, 50, 1, 1), strict=True))
    assert said(rounds_within(items, 20, lambda item: costs[item.id])) == ["H4", "A5"]


@given(HISTORIES, st.integers(0, 120), st.lists(st.integers(0, 20), min_size=14, max_size=14))
def test_a_budget_keeps_the_longest_run_of_newest_rounds_that_fits(shape: str, budget: int, costs: list[int]) -> None:
    items = conversation(shape)
    cost = {item.id: costs[position] for position, item in enumerate(items)}
    options = [last_rounds(items, rounds) for rounds in range(len(rounds_of(items)) + 1)]
    fitting = [option for option in options if sum(cost[item.id] for item in option) <= budget]
    wanted = max(fitting, key=len) if fitting else options[0]
    # A longer window may fit where a shorter one does not only if rounds cost nothing.
    assert said(rounds_within(items, budget, lambda item: cost[item.id])) == said(wanted)


@pytest.mark.parametrize("budget", [-1, 1.5, "2", None, True])
def test_a_bad_budget_is_refused(budget: Any) -> None:
    with pytest.raises(InputError) as raised:
        rounds_within([], budget, ten)
    assert raised.value.field == "budget"


@pytest.mark.parametrize(
    ("shape", "limit", "wanted"),
    [
        ("SHAHA", 3, ["S0", "H3", "A4"]),
        ("SHAHA", 1, ["S0"]),
        ("SHAHA", 0, []),
        ("HAHA", 2, ["H2", "A3"]),
        ("SSSHA", 2, ["S0", "S1", "S2"]),
        ("HSASHS", 1, ["S1", "S3", "S5"]),
        ("SSSHA", 0, []),
        ("SYYHA", 2, ["S0", "Y2"]),
        ("SSYHA", 2, ["S0", "S1"]),
        ("HASHA", 3, ["S2", "H3", "A4"]),
        ("SHAHA", 99, ["S0", "H1", "A2", "H3", "A4"]),
        ("YHAHA", 2, ["Y0", "A4"]),
    ],
)
def test_a_limit_keeps_system_items_and_then_the_newest(shape: str, limit: int, wanted: list[str]) -> None:
    assert said(newest(conversation(shape), limit)) == wanted


def test_lasting_summaries_do_not_crowd_out_what_was_said() -> None:
    facts = [SummaryMemory(content=f"fact {number}", lasting=True) for number in range(3)]
    turns = conversation("HA")
    assert said(newest([*facts, *turns], 2)) == ["H0", "A1"]


@given(HISTORIES, st.integers(0, 16))
def test_only_system_items_exceed_a_limit_and_the_order_is_kept(shape: str, limit: int) -> None:
    items = conversation(shape)
    systems = [item for item in items if item.memory_type == "system"]
    kept = newest(items, limit)
    assert len(kept) == (min(max(limit, len(systems)), len(items)) if limit else 0)
    assert not limit or [item for item in kept if item.memory_type == "system"] == systems
    positions = [items.index(item) for item in kept]
    assert positions == sorted(positions)
    dropped = [item for item in items if item not in kept]
    if any(item.memory_type in ("system", "summary") for item in dropped):
        assert all(item.memory_type in ("system", "summary") for item in kept)
