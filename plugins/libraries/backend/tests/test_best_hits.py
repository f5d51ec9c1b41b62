"""The best hits of a query have the greatest sums, and of equal ones are the newest, however many terms there are."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memoranda_backend.sql.candidates import best_hits

TERMS = st.tuples(st.lists(st.integers(0, 30), max_size=12), st.sampled_from([0.5, 1.0, 2.0, 4.0]))


def newest(items: list[int], most: int) -> list[int]:
    return sorted(items, reverse=True)[:most]


@given(having=st.lists(TERMS, max_size=6) | st.lists(TERMS, min_size=17, max_size=24), most=st.integers(1, 12))
def test_the_best_are_found(having: list[tuple[list[int], float]], most: int) -> None:
    sums: dict[int, float] = {}
    for items, tells in having:
        for item in set(items):
            sums[item] = sums.get(item, 0.0) + tells
    wanted = sorted(sums, key=lambda item: (sums[item], item), reverse=True)[:most]

    assert set(best_hits(having, most, newest)) == set(wanted)
