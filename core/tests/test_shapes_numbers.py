"""Numbers, seconds and yes or no: what is none is an error that names the place, whatever it is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from memoranda import HumanMemory
from memoranda.errors import InputError
from memoranda.shapes import number, seconds, truth, whole_number

HUGE = 10**5000
"""Python refuses to write out so many digits."""

anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.integers(), max_size=2)
)


@pytest.mark.parametrize("check", [whole_number, number, seconds, truth])
@given(value=anything)
@example(value=-HUGE)
@example(value=HUGE)
@example(value=10**400)
@example(value="secret")
def test_a_check_returns_the_value_or_names_the_place(check: Any, value: Any) -> None:
    try:
        taken = check(value, "place")
    except InputError as error:
        refused = error
    else:
        assert taken == (float(value) if check is seconds else value)
        return

    assert refused.field == "place"
    assert "secret" not in str(refused)


@pytest.mark.parametrize("value", [0, 0.0, -1, float("inf"), float("nan"), True, "3", None, HUGE, 10**400], ids=type)
def test_seconds_are_finite_and_above_zero(value: Any) -> None:
    with pytest.raises(InputError, match="timeout must be a number of seconds above 0, not"):
        seconds(value, "timeout")


def test_zero_seconds_and_a_bound_are_possible() -> None:
    assert seconds(0, "wait", zero=True) == 0.0
    with pytest.raises(InputError, match="of at least 0 and at most 1,000,000, not 1000001"):
        seconds(1_000_001, "wait", zero=True, most=1e6)


@pytest.mark.parametrize("status", [-HUGE, 3, ["draft"], "done"], ids=type)
def test_an_item_says_which_statuses_there_are(status: Any) -> None:
    with pytest.raises(InputError, match=r"Unknown status: .*Use one of: draft, accepted, discard"):
        HumanMemory(content="x").transition(status)
