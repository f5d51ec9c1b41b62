"""Order, limits and filters: what a search returns."""

from __future__ import annotations

from typing import Any

from memoranda.errors import InputError
from memoranda.items import AIMemory, HumanMemory, MemoryMetadata, MemoryStatus, ToolMemory
from memoranda.store import Store
from memoranda_testing.case import Cases, moment, note
from memoranda_testing.expect import contents, equal, raises, that


class OrderCases(Cases):
    """Searches return the newest first; of equal time, the last added first."""

    async def test_search_returns_newest_first(self, store: Store) -> None:
        """The order is that of created_at, not of adding."""
        scope = self.scope()
        for second in (2, 5, 1, 4, 3):
            await store.add(note(str(second), scope, second))
        equal(contents(await store.search(metadata=scope)), ["5", "4", "3", "2", "1"], "search, newest first")

    async def test_microseconds_decide_the_order(self, store: Store) -> None:
        """Times that differ by a microsecond are distinct."""
        scope = self.scope()
        for micro in (2, 0, 999_999, 1):
            await store.add(note(str(micro), scope, created_at=moment(7, micro)))
        equal(contents(await store.search(metadata=scope)), ["999999", "2", "1", "0"], "search by microsecond")

    async def test_times_of_other_zones_are_ordered_by_time(self, store: Store) -> None:
        """A time with an offset stands where its moment stands, not where its text does."""
        scope = self.scope()
        await store.add(note("second", scope, created_at="2024-03-01T10:00:00+00:00"))
        await store.add(note("first", scope, created_at="2024-03-01T14:00:00+05:00"))
        await store.add(note("third", scope, created_at="2024-03-01T06:00:00-05:00"))
        equal(contents(await store.search(metadata=scope)), ["third", "second", "first"], "search over zones")

    async def test_extreme_times_are_ordered(self, store: Store) -> None:
        """Times from the year 1 to the year 9999 stand in the order of time."""
        scope = self.scope()
        times = ["0001-01-01", "0999-12-31", "1969-12-31T23:59:59.999999", "1970-01-01", "2038-01-20", "9999-12-31"]
        for text in (times[position] for position in (3, 0, 5, 2, 4, 1)):
            await store.add(note(text, scope, created_at=text))
        equal(contents(await store.search(metadata=scope)), times[::-1], "search over extreme times")

    async def test_items_of_equal_time_come_last_added_first(self, store: Store) -> None:
        """Ties are broken by the order of adding."""
        scope = self.scope()
        for number in range(12):
            await store.add(note(str(number), scope, 9))
        wanted = [str(number) for number in reversed(range(12))]
        equal(contents(await store.search(metadata=scope, limit=20)), wanted, "search among equal times")

    async def test_a_limit_keeps_the_newest_among_ties(self, store: Store) -> None:
        """A limit that cuts through equal times keeps those added last."""
        scope = self.scope()
        for number in range(6):
            await store.add(note(str(number), scope, 9))
        equal(contents(await store.search(metadata=scope, limit=2)), ["5", "4"], "search with a limit among ties")

    async def test_add_many_keeps_the_order_given(self, store: Store) -> None:
        """Items of one add_many and equal time stand in the order in which they were given."""
        scope = self.scope()
        await store.add_many([note(str(number), scope, 9) for number in range(8)])
        await store.add(note("8", scope, 9))
        wanted = [str(number) for number in reversed(range(9))]
        equal(contents(await store.search(metadata=scope)), wanted, "search after add_many")

    async def test_a_replaced_item_keeps_its_place_among_ties(self, store: Store) -> None:
        """Replacing an item does not move it among items of the same time."""
        scope = self.scope()
        items = [note(str(number), scope, 9) for number in range(3)]
        await store.add_many(items)
        await store.add(note("0 again", scope, 9, id=items[0].id))
        equal(contents(await store.search(metadata=scope)), ["2", "1", "0 again"], "search after a replacement")

    async def test_a_new_time_moves_a_replaced_item(self, store: Store) -> None:
        """Replacing an item by one of another time puts it where that time stands."""
        scope = self.scope()
        items = [note(str(second), scope, second) for second in range(3)]
        await store.add_many(items)
        await store.add(note("moved", scope, 50, id=items[0].id))
        equal(contents(await store.search(metadata=scope)), ["moved", "2", "1"], "search after a new time")


class LimitCases(Cases):
    """A limit is the most to return."""

    async def test_limits_cut_the_result(self, store: Store) -> None:
        """0 returns nothing, n the newest n, one beyond the number of items all of them."""
        scope = self.scope()
        await store.add_many([note(str(second), scope, second) for second in range(5)])
        for limit, wanted in ((0, []), (1, ["4"]), (3, ["4", "3", "2"]), (5, list("43210")), (6, list("43210"))):
            equal(contents(await store.search(metadata=scope, limit=limit)), wanted, f"search with limit={limit}")

    async def test_a_huge_limit_means_all(self, store: Store) -> None:
        """A limit beyond every engine's integers is taken."""
        scope = self.scope()
        await store.add_many([note(str(second), scope, second) for second in range(3)])
        for limit in (2**31, 2**63, 10**40):
            equal(len(await store.search(metadata=scope, limit=limit)), 3, f"number found with limit={limit}")

    async def test_the_default_limit_is_ten(self, store: Store) -> None:
        """Without a limit, the newest ten are returned."""
        scope = self.scope()
        await store.add_many([note(str(second), scope, second) for second in range(12)])
        found = contents(await store.search(metadata=scope))
        equal(found, [str(second) for second in range(11, 1, -1)], "search without a limit")

    async def test_a_negative_limit_is_refused(self, store: Store) -> None:
        """A negative limit is an InputError, also for a ranked search."""
        with raises(InputError, "search(limit=-1)") as raised:
            await store.search(limit=-1)
        equal(raised.error.field, "limit", "the field that the error names")
        with raises(ValueError, "search_ranked(limit=-1)"):
            await store.search_ranked(query="x", limit=-1, mode="text")

    async def test_a_limit_that_is_no_number_is_refused(self, store: Store) -> None:
        """A limit is a whole number."""
        for limit in ("3", 2.5, None, True, -(10**5000)):
            with raises(InputError, f"search with a limit of type {type(limit).__name__}"):
                await store.search(limit=limit)  # type: ignore[arg-type]  # the mistake under test


class FilterCases(Cases):
    """None means any; every other value must match."""

    async def test_memory_type_is_matched_exactly(self, store: Store) -> None:
        """A filter by type returns those items alone; an unknown type finds none."""
        scope = self.scope()
        await store.add(HumanMemory(content="human", metadata=scope))
        await store.add(AIMemory(content="ai", metadata=scope))
        await store.add(ToolMemory(content="tool", metadata=scope))
        await store.add(note("own", scope, memory_type="Human"))
        await store.add(note("empty", scope, memory_type=""))
        for kind, wanted in (("human", ["human"]), ("Human", ["own"]), ("", ["empty"]), ("hum", []), ("%", [])):
            found = await store.search(metadata=scope, memory_type=kind)
            equal(contents(found), wanted, f"search with memory_type={kind!r}")
        equal(len(await store.search(metadata=scope, memory_type=None)), 5, "number found with memory_type=None")

    async def test_status_is_matched(self, store: Store) -> None:
        """A filter by status returns those items alone, given as the enumeration or as its text."""
        scope = self.scope()
        for status in MemoryStatus:
            await store.add(note(status.value, scope, status=status))
        for status in MemoryStatus:
            equal(contents(await store.search(metadata=scope, status=status)), [status.value], f"status={status}")
        found = await store.search(metadata=scope, status="draft")  # type: ignore[arg-type]  # text is taken too
        equal(contents(found), ["draft"], "search with status='draft'")

    async def test_an_unknown_status_is_refused(self, store: Store) -> None:
        """A status that does not exist is an InputError."""
        # Python refuses to write out an integer of thousands of digits.
        for status in ("done", -(10**5000), 3, ["draft"]):
            with raises(InputError, f"search(status={type(status).__name__})"):
                await store.search(status=status)  # type: ignore[arg-type]  # the mistake under test

    async def test_each_metadata_field_is_matched(self, store: Store) -> None:
        """A filter names any of user, session, task and agent, and all that it names must match."""
        user = self.user()
        first = MemoryMetadata(user_id=user, session_id="s1", task_id="t1", agent_id="a1")
        second = MemoryMetadata(user_id=user, session_id="s2", task_id="t1", agent_id="a2")
        await store.add(note("first", first, 1))
        await store.add(note("second", second, 2))
        filters: list[tuple[dict[str, Any], list[str]]] = [
            ({}, ["second", "first"]),
            ({"session_id": "s1"}, ["first"]),
            ({"task_id": "t1"}, ["second", "first"]),
            ({"agent_id": "a2"}, ["second"]),
            ({"session_id": "s1", "agent_id": "a2"}, []),
            ({"session_id": "s"}, []),
        ]
        for fields, wanted in filters:
            found = await store.search(metadata=MemoryMetadata(user_id=user, **fields))
            equal(contents(found), wanted, f"search with {fields}")
        equal(await store.search(metadata=MemoryMetadata(user_id=self.user())), [], "search of another user")

    async def test_the_empty_text_is_a_value(self, store: Store) -> None:
        """A filter by the empty text matches the empty text alone: not None, and not anything."""
        user = self.user()

        def scope(name: str, value: Any) -> MemoryMetadata:
            return MemoryMetadata(user_id=user, **{name: value})

        for name in ("session_id", "task_id", "agent_id"):
            for value in (None, "", "x"):
                await store.add(note(f"{name}={value!r}", scope(name, value)))
        for name in ("session_id", "task_id", "agent_id"):
            found = await store.search(metadata=scope(name, ""))
            equal(contents(found), [f"{name}=''"], f"search with {name}=''")

    async def test_scope_fields_are_compared_exactly(self, store: Store) -> None:
        """Case, spaces, wildcards and composed characters count in ids of users and sessions."""
        user = self.user()
        sessions = ["s", "S", "s ", "%", "_", "é", "e\u0301", "s'", "0", "00"]
        for session in sessions:
            await store.add(note(session, MemoryMetadata(user_id=user, session_id=session)))
        for session in sessions:
            found = await store.search(metadata=MemoryMetadata(user_id=user, session_id=session))
            equal(contents(found), [session], f"search with session_id={session!r}")
        users = [self.owned(MemoryMetadata(user_id=name)) for name in (user.upper(), f"{user} ", f"{user}%", user[:-1])]
        for other in users:
            await store.add(note(str(other.user_id), other))
        for other in users:
            found = await store.search(metadata=other)
            equal(contents(found), [other.user_id], f"search with user_id={other.user_id!r}")

    async def test_extra_matches_as_a_subset(self, store: Store) -> None:
        """Every key that the filter names must be there with an equal value; further keys do not matter."""
        user = self.user()
        await store.add(note("both", MemoryMetadata(user_id=user, extra={"a": 1, "b": {"c": [1, 2]}}), 1))
        await store.add(note("one", MemoryMetadata(user_id=user, extra={"a": 1}), 2))
        await store.add(note("none", MemoryMetadata(user_id=user), 3))
        for extra, wanted in (
            ({}, ["none", "one", "both"]),
            ({"a": 1}, ["one", "both"]),
            ({"a": 1, "b": {"c": [1, 2]}}, ["both"]),
            ({"b": {"c": [1]}}, []),
            ({"b": {}}, []),
            ({"a": 2}, []),
            ({"absent": None}, []),
        ):
            found = await store.search(metadata=MemoryMetadata(user_id=user, extra=extra))
            equal(contents(found), wanted, f"search with extra={extra}")

    async def test_extra_compares_as_json_does(self, store: Store) -> None:
        """true is not 1 and "1" is not 1, but 1 is 1.0; null is a value; objects ignore the order of their keys."""
        user = self.user()
        values: list[Any] = [True, 1, "1", None, [1], {"x": 1, "y": [True]}, False, 0, ""]
        for position, value in enumerate(values):
            await store.add(note(str(position), MemoryMetadata(user_id=user, extra={"v": value}), position))
        wanted: list[tuple[Any, list[str]]] = [
            (True, ["0"]),
            (1, ["1"]),
            (1.0, ["1"]),
            ("1", ["2"]),
            (None, ["3"]),
            ([1.0], ["4"]),
            ([True], []),
            ({"y": [True], "x": 1.0}, ["5"]),
            ({"x": 1}, []),
            (False, ["6"]),
            (0, ["7"]),
            (-0.0, ["7"]),
            ("", ["8"]),
        ]
        for value, found in wanted:
            matches = await store.search(metadata=MemoryMetadata(user_id=user, extra={"v": value}))
            equal(contents(matches), found, f"search with extra={{'v': {value!r}}}")

    async def test_extra_compares_exactly(self, store: Store) -> None:
        """Large integers are distinct to the last digit, and texts are literal: quotes, escapes, case."""
        user = self.user()
        values: list[Any] = [2**60, 2**60 + 1, 2**70, 2**70 + 1, 0.1, 1.5e300, -1]
        values += [
            "it's",
            'a "b"',
            "a\\b",
            "\\u0041",
            "A",
            "a",
            "%",
            "ключ",
            "1.0",
            "true",
            "null",
            "[1]",
            "a\nb",
            "🦉",
        ]
        for position, value in enumerate(values):
            await store.add(note(str(position), MemoryMetadata(user_id=user, extra={"v": value}), position))
        for position, value in enumerate(values):
            found = await store.search(metadata=MemoryMetadata(user_id=user, extra={"v": value}))
            equal(contents(found), [str(position)], f"search with extra={{'v': {value!r}}}")
            equal(await store.count(metadata=MemoryMetadata(user_id=user, extra={"v": value})), 1, "count of the same")

    async def test_nought_has_no_sign_in_a_filter(self, store: Store) -> None:
        """A filter compares numbers by value: 0, 0.0 and -0.0 all find each other, inside of lists and objects too."""
        user = self.user()
        noughts: list[Any] = [0, 0.0, -0.0]
        for position, value in enumerate(noughts):
            extra = {"v": value, "in": [{"x": value}]}
            await store.add(note(str(position), MemoryMetadata(user_id=user, extra=extra), position))
        for value in noughts:
            for extra in ({"v": value}, {"in": [{"x": value}]}):
                found = await store.search(metadata=MemoryMetadata(user_id=user, extra=extra))
                equal(contents(found), ["2", "1", "0"], f"search with extra={extra!r}")

    async def test_extra_keys_are_literal(self, store: Store) -> None:
        """Dots, quotes, brackets and the empty text are part of a key's name."""
        user = self.user()
        keys = ["a.b", "a'b", 'a"b', "$", "[0]", "", "a b", "ключ", "a\\b", "%"]
        for key in keys:
            await store.add(note(key, MemoryMetadata(user_id=user, extra={key: 1})))
        await store.add(note("nested", MemoryMetadata(user_id=user, extra={"a": {"b": 1}})))
        for key in keys:
            found = await store.search(metadata=MemoryMetadata(user_id=user, extra={key: 1}))
            equal(contents(found), [key], f"search with the extra key {key!r}")

    async def test_filters_are_combined(self, store: Store) -> None:
        """An item is found if it passes every condition, and the limit counts only those."""
        scope = self.scope(session_id="s")
        draft = MemoryStatus.DRAFT
        await store.add(note("green tea", scope, 1, status=draft))
        await store.add(note("green apple", scope, 2))
        await store.add(note("red tea", scope, 3, status=draft))
        await store.add(note("green tea", scope, 4, status=draft, memory_type="other"))
        found = await store.search(
            query="green", metadata=scope, memory_type="note", status=draft, limit=1, mode="substring"
        )
        equal([(item.content, item.created_at) for item in found], [("green tea", moment(1))], "combined filters")

    async def test_a_filter_of_another_kind_is_refused(self, store: Store) -> None:
        """Metadata given as a dict is an InputError, not a filter that is passed over."""
        with raises(InputError, "search(metadata={...})"):
            await store.search(metadata={"user_id": "x"})  # type: ignore[arg-type]  # the mistake under test

    async def test_get_returns_none_for_what_is_not_there(self, store: Store) -> None:
        """An unknown id is None, not an error."""
        equal(await store.get(self.user()), None, "get of an unknown id")

    async def test_get_respects_a_metadata_filter(self, store: Store) -> None:
        """Get with a filter returns the item only if it matches."""
        scope = self.scope(session_id="s", extra={"k": 1})
        item = note("mine", scope)
        await store.add(item)
        for wanted, there in (
            (None, True),
            (scope, True),
            (MemoryMetadata(session_id="s"), True),
            (MemoryMetadata(extra={"k": 1.0}), True),
            (MemoryMetadata(extra={"k": True}), False),
            (MemoryMetadata(user_id=self.user()), False),
            (MemoryMetadata(session_id=""), False),
        ):
            found = await store.get(item.id, metadata=wanted)
            that((found is not None) is there, f"get with {wanted!r} should {'' if there else 'not '}return the item.")
