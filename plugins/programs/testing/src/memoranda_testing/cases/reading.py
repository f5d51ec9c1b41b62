"""Order, limits and filters: what a search returns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.items import MemoryMetadata, MemoryStatus
from memoranda_testing.case import moment
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, Program, item, items, mine, played, refused

TIMES = ("0001-01-01", "0999-12-31", "1969-12-31T23:59:59.999999", "1970-01-01", "2038-01-20", "9999-12-31")
"""Times from the first year to the last one."""

NOUGHTS: list[Any] = [0, 0.0, -0.0]

JSON: list[Any] = [
    *(True, 1, "1", None, [1], {"x": 1, "y": [True]}, False, 0, "", {"x": 1}, [True], [], {}),
    *(2**60, 2**60 + 1, 2**70, 2**70 + 1, 0.1, 1.5e300, -1),
    *("it's", 'a "b"', "a\\b", "\\u0041", "A", "a", "%", "ключ", "1.0", "true", "null", "[1]", "a\nb", "🦉"),
]
"""Values that one engine or another takes for each other."""

KEYS = ["a.b", "a'b", 'a"b', "$", "[0]", "", "a b", "ключ", "a\\b", "%", "a"]
"""Names of keys that look like something else."""

SESSIONS = [None, "", "s", "S", "s ", "%", "_", "é", "e\u0301", "s'", "0", "00"]
"""Names of owners that are easily taken for one another."""


class OrderCases(HistoryCases):
    """Searches return the newest first; of equal time, the last added first."""

    @played
    def test_search_returns_newest_first(self, store: Calls) -> Program:
        """The order is that of created_at, to the microsecond, not of adding; ties follow the order of adding."""
        yield from (store.add(item(str(second), second)) for second in (2, 5, 1, 4, 3))
        yield store.search()
        yield from (store.add(item(f"0.{part}", created_at=moment(7, part))) for part in (2, 0, 999_999, 1))
        yield store.search(limit=20)
        yield store.add_many(items(*"cafedb", second=9))
        yield from (store.search(limit=limit) for limit in (2, 20))

    @played
    def test_times_are_ordered_by_their_moment(self, store: Calls) -> Program:
        """A time of another zone stands where its moment stands, and so does one of the year 1 or 9999."""
        zones = ("2024-03-01T10:00:00+00:00", "2024-03-01T14:00:00+05:00", "2024-03-01T06:00:00-05:00")
        times = (*zones, *(TIMES[position] for position in (3, 0, 5, 2, 4, 1)))
        yield from (store.add(item(f"item {number}", created_at=time)) for number, time in enumerate(times))
        yield store.search()

    @played
    def test_a_replaced_item_keeps_its_place_among_ties(self, store: Calls) -> Program:
        """Replacing an item does not move it among items of the same time; one of a new time stands where that does."""
        yield store.add_many(items(*"abc", second=9))
        yield from (store.add(item("again", second, id="a")) for second in (9, 50))


class LimitCases(HistoryCases):
    """A limit is the most to return."""

    @played
    def test_limits_cut_the_result(self, store: Calls) -> Program:
        """0 returns nothing, n the newest n, one beyond the number of items all of them; without one, it is ten."""
        yield store.add_many(items(*"abcdefghijkl"))
        yield from (store.search(limit=limit) for limit in (0, 1, 3, 12, 13, 2**31, 2**63, 10**40))
        yield store.search()

    @refused
    def test_a_limit_that_is_no_number_is_refused(self, store: Calls) -> Iterator[Call]:
        """A limit is a whole number that is not negative."""
        yield from (store.search(limit=limit) for limit in ("3", 2.5, None, True, -1))
        yield store.search_ranked(query="x", limit=-1, mode="text")


class FilterCases(HistoryCases):
    """None means any; every other value must match."""

    @played
    def test_types_and_status_are_matched_exactly(self, store: Calls) -> Program:
        """A filter by type or status returns those items alone; a status is the enumeration or its text."""
        kinds = ("human", "ai", "Human", "")
        yield store.add_many([item(f"of {kind!r}", memory_type=kind) for kind in kinds if kind not in ("human", "ai")])
        yield store.add_many([item(f"a {status}", status=status) for status in MemoryStatus])
        yield from (store.search(memory_type=kind) for kind in (*kinds, "hum", "%", None))
        yield from (store.search(status=status) for status in (*MemoryStatus, "draft"))

    @played
    def test_scope_fields_are_compared_exactly(self, store: Calls) -> Program:
        """Case, spaces, wildcards and composed characters count; the empty text is a value, neither None nor any."""
        fields = ("session_id", "task_id", "agent_id")
        for name in fields:
            yield store.add_many([item(f"{name}={value!r}", metadata=mine(**{name: value})) for value in SESSIONS])
        yield from (store.search(metadata=mine(**{name: value})) for name in fields for value in SESSIONS)
        yield from (store.search(metadata=MemoryMetadata(user_id=user)) for user in ("Ada", "ada ", "ada%", "ad", ""))
        yield store.search(metadata=mine(session_id="s", agent_id="s"))

    @played
    def test_extra_matches_as_json_does(self, store: Calls) -> Program:
        """Keys that are named must be there: true and "1" are not 1, but 1 is 1.0; the order of keys does not count."""
        yield store.add_many([item(f"{value!r}", metadata=mine(extra={"v": value, "w": 1})) for value in JSON])
        yield store.add(item("none"))
        for value in (*JSON, 1.0, [1.0], {"y": [True], "x": 1.0}, -0.0, 2):
            yield store.search(metadata=mine(extra={"v": value}))
            yield store.count(metadata=mine(extra={"v": value}))
        yield from (store.search(metadata=mine(extra=extra)) for extra in ({}, {"v": 1, "w": 1}, {"absent": None}))

    @played
    def test_nought_has_no_sign_in_a_filter(self, store: Calls) -> Program:
        """A filter compares numbers by value: 0, 0.0 and -0.0 all find each other, inside of lists and objects too."""
        extras = [{"v": value, "in": [{"x": value}]} for value in NOUGHTS]
        yield store.add_many([item(str(number), metadata=mine(extra=extra)) for number, extra in enumerate(extras)])
        yield from (store.search(metadata=mine(extra={key: extra[key]})) for extra in extras for key in extra)

    @played
    def test_extra_keys_are_literal(self, store: Calls) -> Program:
        """Dots, quotes, brackets and the empty text are part of a key's name."""
        yield store.add_many([item(f"key {key}", metadata=mine(extra={key: 1})) for key in KEYS])
        yield store.add(item("nested", metadata=mine(extra={"a": {"b": 1}})))
        yield from (store.search(metadata=mine(extra={key: 1})) for key in KEYS)

    @played
    def test_filters_are_combined(self, store: Calls) -> Program:
        """An item is found if it passes every condition, and the limit counts only those."""
        metadata, draft = mine(session_id="s"), MemoryStatus.DRAFT
        yield store.add(item("green tea", 1, metadata, status=draft))
        yield store.add(item("green apple", 2, metadata))
        yield store.add(item("red tea", 3, metadata, status=draft))
        yield store.add(item("green tea", 4, metadata, status=draft, memory_type="other", id="other"))
        for kind in ("note", None):
            yield store.search(
                query="green", metadata=metadata, memory_type=kind, status=draft, limit=1, mode="substring"
            )

    @refused
    def test_a_filter_of_another_kind_is_refused(self, store: Calls) -> Iterator[Call]:
        """Metadata given as a dict is an InputError, and so is a status that does not exist."""
        yield store.search(metadata={"user_id": "x"})
        yield from (store.search(status=status) for status in ("done", 3, ["draft"]))

    @played
    def test_get_respects_a_metadata_filter(self, store: Calls) -> Program:
        """An unknown id is None, not an error, and with a filter an item is returned only if it matches."""
        yield store.add(item("tea", metadata=mine(session_id="s", extra={"k": 1})))
        filters: list[dict[str, Any]] = [{"session_id": "s"}, {"session_id": ""}, {"extra": {"k": 1.0}}]
        for given in (*filters, {"extra": {"k": True}}, {"user_id": "bob"}, {"user_id": "ada", "session_id": "s"}):
            yield store.get("tea", metadata=MemoryMetadata(**given))
        yield from (store.get(item_id) for item_id in ("tea", "coffee"))
