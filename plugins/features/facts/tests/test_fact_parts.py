"""Coarse dates, values and schemas."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest

from memoranda.errors import InputError
from memoranda.store import InMemoryStore
from memoranda_facts import Facts, Predicate, Ref, Schema
from memoranda_facts.values import (
    EVER,
    as_given,
    as_object,
    dumped,
    end_of,
    last_moment_of,
    loaded,
    same_value,
    start_of,
)

ZONE = ".000000+00:00"


@pytest.mark.parametrize(
    ("given", "start", "end"),
    [
        ("2026", "2026-01-01T00:00:00", "2027-01-01T00:00:00"),
        ("2026-02", "2026-02-01T00:00:00", "2026-03-01T00:00:00"),
        ("2024-12", "2024-12-01T00:00:00", "2025-01-01T00:00:00"),
        ("2024-02-29", "2024-02-29T00:00:00", "2024-03-01T00:00:00"),
        (date(2026, 3, 5), "2026-03-05T00:00:00", "2026-03-06T00:00:00"),
        ("2026-03-05T10:00:00+02:00", "2026-03-05T08:00:00", "2026-03-05T08:00:00"),
        (datetime(2026, 3, 5, 8, tzinfo=UTC), "2026-03-05T08:00:00", "2026-03-05T08:00:00"),
    ],
)
def test_a_coarse_date_is_an_interval(given: str | date, start: str, end: str) -> None:
    assert start_of(given) == start + ZONE
    assert end_of(given) == end + ZONE
    assert start_of(given) <= last_moment_of(given) <= end_of(given)


def test_open_ends_lie_before_and_behind_every_moment() -> None:
    assert start_of(EVER) < start_of("0001") < end_of("9998") < end_of(None)


@pytest.mark.parametrize("given", ["2026-13", "2026-02-30", "9999", "soon", "", "26", 2026, "2026-3"])
def test_what_is_no_date_is_refused(given: object) -> None:
    with pytest.raises(InputError, match="valid_from"):
        as_given(given, "valid_from")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    "value", ["tea", 3, 2.5, True, date(2026, 3, 5), datetime(2026, 3, 5, 8, tzinfo=UTC), Ref("Analytical Ltd")]
)
async def test_a_value_of_every_kind_comes_back(value: object) -> None:
    assert loaded(dumped(as_object(value))) == value
    facts = Facts(InMemoryStore().scoped(user_id="ada"))
    await facts.set("Ada", "has", value, sources="manual")
    (fact,) = await facts.current()
    assert (fact.object, type(fact.object)) == (value, type(value))


def test_values_are_the_same_whatever_their_case_and_kind_of_number() -> None:
    assert same_value("Green  Tea ") == same_value("green tea")
    assert same_value(2) == same_value(2.0) != same_value("2")
    assert same_value(True) != same_value(1)
    assert same_value(Ref("Ada")) == same_value("ada")


def test_a_name_that_means_two_predicates_is_refused() -> None:
    with pytest.raises(InputError, match="Home"):
        Schema([Predicate("lives_in", aliases=("home",)), Predicate("Home")])


def test_a_predicate_of_no_kind_is_refused() -> None:
    with pytest.raises(InputError, match="Use one of: one, many, event"):
        Predicate("likes", "some")  # type: ignore[arg-type]  # wrong on purpose


async def test_a_normaliser_may_refuse_a_value() -> None:
    schema = Schema([Predicate("age", "one", normalise=lambda value: int(str(value)))])
    facts = Facts(InMemoryStore().scoped(user_id="ada"), schema=schema)
    await facts.set("Ada", "age", "36", sources="manual")
    assert (await facts.current())[0].object == 36
    with pytest.raises(InputError, match="age"):
        await facts.set("Ada", "age", "old", sources="manual")
