"""Order, limits, filters, time, windows, scans, and the owners of what is stored."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from memoranda.errors import InputError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, MemoryStatus, SystemMemory, ToolMemory
from memoranda.store import Store
from memoranda_testing.case import moment, note
from memoranda_testing.expect import contents, equal, raises
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, refused, theirs

SESSIONS = [None, "", "s", "S", "s ", "%", "_", "é", "e\u0301", "s'", "0", "00"]
"""Names of owners that are easily taken for one another."""

ORDERS = ("added", "created", "updated", None)


class OrderCases(HistoryCases):
    """Searches return the newest first; of equal time, the last added first; a limit is the most to return."""

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

    @played
    def test_each_order_has_its_own_meaning(self, store: Calls) -> Program:
        """By created_at, by updated_at and by adding are three orders, whichever of them agree; ties are as added."""
        for created, updated in itertools.product((1234, 4321, 2143, 3112), repeat=2):
            place = mine(session_id=f"{created} {updated}")
            times = zip("abcd", str(created), str(updated), strict=True)
            fields = [(f"{text}{created}{updated}", int(one), moment(int(two))) for text, one, two in times]
            yield store.add_many([item(text, one, place, updated_at=two) for text, one, two in fields])
            yield from (store.search(metadata=place, limit=2, offset=1, order=order) for order in ORDERS)
            yield from (store.scan(metadata=place, order=order) for order in ORDERS)

    @played
    def test_pages_of_every_order_meet(self, store: Calls) -> Program:
        """limit and offset cut the same listing or ranking, and nothing is beyond its end."""
        texts = ["tea " * (number + 1) + f"cup{number}" for number in range(10)]
        yield store.add_many([item(text, number * 7 % 10) for number, text in enumerate(texts)])
        for offset in (0, 3, 6, 9, 12, 10**30):
            yield from (store.search(limit=3, offset=offset, order=order) for order in ORDERS)
            yield store.search_ranked(query="tea", mode="text", limit=3, offset=offset)
        yield store.search(limit=0, offset=3)

    @refused
    def test_wrong_pages_and_orders_are_refused(self, store: Calls) -> Iterator[Call]:
        """An offset is an integer of at least 0; an order has one of three names."""
        yield from (store.search(order=order) for order in ("newest", ""))
        for offset in (-1, 1.5, "2", True):
            yield from (store.search(offset=offset), store.search_ranked(query="x", offset=offset))


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

    @refused
    def test_a_filter_of_another_kind_is_refused(self, store: Calls) -> Iterator[Call]:
        """Metadata given as a dict is an InputError, and so is a status that does not exist."""
        yield store.search(metadata={"user_id": "x"})
        yield from (store.search(status=status) for status in ("done", 3, ["draft"]))


class TimeCases(HistoryCases):
    """since and until."""

    @played
    def test_times_are_texts_or_datetimes_with_a_zone(self, store: Calls) -> Program:
        """Zones are brought to UTC; a datetime without one is refused, as it could be any time."""
        yield store.add_many([item("before", 0), item("after", 60)])
        instant = datetime.fromisoformat(moment(30))
        east = instant.astimezone(timezone(timedelta(hours=9)))
        right = (instant, east, east.isoformat(), moment(30), "2024-03-01T00:00:30")
        for since in (*right, instant.replace(tzinfo=None), "yesterday", 5, "", instant.date()):
            yield from (store.search(since=since), store.count(until=since))
        yield store.clear(metadata=mine(), since="yesterday")


class WindowCases(HistoryCases):
    """One call for what a model may be shown."""

    @played
    def test_a_window_keeps_instructions_rounds_and_groups(self, store: Calls) -> Program:
        """However long ago the system message was, it is there; rounds are whole and so are tool calls."""
        place = mine(session_id="s")
        said: list[MemoryItem] = [SystemMemory(id="system", content="be kind", metadata=place)]
        for number in range(120):
            calls = [{"id": f"c{number}", "name": "look"}]
            said += [
                HumanMemory(id=f"q{number}", content=f"q{number}", metadata=place),
                AIMemory(id=f"call{number}", content="", metadata=place, tool_calls=calls),
                ToolMemory(id=f"r{number}", content=f"r{number}", metadata=place, tool_call_id=f"c{number}"),
                AIMemory(id=f"a{number}", content=f"a{number}", metadata=place),
            ]
        said.append(HumanMemory(id="last", content="last", metadata=place))
        said.append(AIMemory(id="open", content="", metadata=place, tool_calls=[{"id": "open", "name": "look"}]))
        yield store.add_many(said)
        asked: list[dict[str, int]] = [{"rounds": 2}, {}, {"tokens": 30}, {"limit": 3}, {"rounds": 0}, {"limit": 20}]
        yield from (store.window(metadata=place, **bounds) for bounds in asked)
        yield store.scoped(user_id="ada").window(rounds=2)

    async def test_a_window_counts_tokens_as_the_caller_does(self, store: Store) -> None:
        """With a counter, whole rounds are shown within so many of its tokens, after the system message."""
        scope = self.scope(session_id="s")
        said: list[MemoryItem] = [SystemMemory(content="be kind", metadata=scope)]
        for number in range(120):
            said.append(HumanMemory(content=f"q{number}", metadata=scope))
            said.append(AIMemory(content=f"a{number}", metadata=scope))
        await store.add_many(said)
        few = await store.window(metadata=scope, tokens=4, counter=lambda _: 1)
        equal(contents(few), ["be kind", "q119", "a119"], "rounds within four tokens")

    @played
    def test_a_window_shows_what_all_of_a_long_history_would_have_shown(self, store: Calls) -> Program:
        """Neither half of a group that began long ago nor late answers to an old question stand for what is newer."""
        place, old, new = (mine(session_id=name) for name in ("s", "old", "new"))
        yield store.add(HumanMemory(id="begin", content="begin", metadata=place, group="g"))
        yield store.add_many([AIMemory(id=f"g{number}", content=f"a{number}", metadata=place) for number in range(70)])
        yield store.add(AIMemory(id="end", content="end", metadata=place, group="g"))
        yield from (store.add(item("last", metadata=place)), store.window(metadata=place, limit=3))
        yield store.add(HumanMemory(id="asked", content="asked long ago", metadata=old))
        for number in range(3):
            yield store.add(HumanMemory(id=f"q{number}", content=f"q{number}", metadata=new))
            yield store.add(AIMemory(id=f"a{number}", content=f"a{number}", metadata=new))
        yield store.add_many([AIMemory(id=f"late {number}", content="late", metadata=old) for number in range(70)])
        for bounds in ({"rounds": 2}, {"rounds": 2, "limit": 20}, {"tokens": 10}, {"tokens": 40}):
            yield store.window(metadata=mine(), **bounds)

    @refused
    def test_a_window_refuses_what_is_no_bound(self, store: Calls) -> Iterator[Call]:
        """Rounds, tokens and limit are integers of at least 0."""
        for name in ("rounds", "tokens", "limit"):
            yield from (store.window(**{name: bound}) for bound in (-1, 1.5, "2", True))


class ScanCases(HistoryCases):
    """Scanning yields everything that matches, oldest first."""

    async def test_scan_survives_writes_in_between(self, store: Store) -> None:
        """Items that are there for the whole scan are yielded exactly once while others come, change and go."""
        for order in ("created", "added"):
            scope = self.scope()
            held = [note(str(number), scope, number) for number in range(1_200 if self.is_brief else 4_500)]
            await store.add_many(held)
            seen: list[str] = []
            gone: set[str] = set()
            async for found in store.scan(metadata=scope, order=order):
                seen.append(found.content)
                if len(seen) in (1, 120, 250, 480, 950, 1_900, 3_800):
                    came = [note("before", scope, 0), note("after", scope, 9_000)]
                    came.append(note("120", scope, 120, id=held[120].id))
                    for place, second in ((0, 9_500), (-1, 0)) if order == "added" else ():
                        came.append(note(held[place].content, scope, second, id=held[place].id))
                    some = held[len(seen) // 2 + 1 : len(seen) // 2 + 8]
                    await store.apply(adds=came, deletes=[each.id for each in some])
                    gone.update(each.content for each in some)
            stayed = [content for content in seen if content not in ("before", "after", "120") and content not in gone]
            wanted = [each.content for each in held if each.content != "120" and each.content not in gone]
            equal(stayed, wanted, f"scan by {order!r} while others write")

    async def test_scan_can_be_left_early(self, store: Store) -> None:
        """Leaving a scan releases what it held: the store goes on, for reading and for writing."""
        scope = self.scope()
        await store.add_many([note(str(number), scope, number) for number in range(50)])
        for _ in range(30):
            scan = store.scan(metadata=scope)
            await anext(scan)
            await scan.aclose()
        await store.add(note("later", scope, 100))
        equal(contents(await store.search(metadata=scope, limit=1)), ["later"], "search after scans left early")

    async def test_several_scans_run_side_by_side(self, store: Store) -> None:
        """Two scans and a search in turn do not disturb each other."""
        scope = self.scope()
        await store.add_many([note(str(number), scope, number) for number in range(40)])
        first, second = store.scan(metadata=scope), store.scan(metadata=scope)
        pairs = []
        async for one in first:
            other = await anext(second)
            (newest,) = await store.search(metadata=scope, limit=1)
            pairs.append((one.content, other.content, newest.content))
        await second.aclose()
        equal(pairs, [(str(number), str(number), "39") for number in range(40)], "two scans side by side")


class NamespaceCases(HistoryCases):
    """Namespaces are a hierarchy."""

    @played
    def test_a_handle_is_bound_to_a_place_and_all_below(self, store: Calls) -> Program:
        """It stamps what has no place, keeps places below its own, and cannot reach beside or above."""
        yield store.add_many([item(f"in {place}", metadata=mine(namespace=("team", place))) for place in ("ab", "")])
        yield store.add(item("above", metadata=mine(namespace=("team",))))
        handle = store.scoped(user_id="ada", namespace=("team", "a"))
        yield handle.add(item("stamped", metadata=MemoryMetadata()))
        places: list[tuple[str, ...]] = [("team", "a", "x"), ("team",), ("team", "b")]
        yield from (handle.add(item(f"{place}", metadata=MemoryMetadata(namespace=place))) for place in places)
        yield from (handle.search(metadata=MemoryMetadata(namespace=place)) for place in places)
        yield from (handle.search(), handle.get("above"), handle.clear())

    async def test_what_is_no_namespace_is_refused(self, store: Store) -> None:
        """A text is not a tuple of its letters, and what no store can hold is named."""
        for bad in ("users", ("a", 1), ("a\0",), ("\ud800",), ("x" * 2000,)):
            with raises(InputError, f"an item in the namespace {bad!r}"):
                await store.add(note("x", MemoryMetadata(user_id=self.user(), namespace=bad)))  # type: ignore[arg-type]  # the mistake under test
        with raises(InputError, "a handle at the root"):
            store.scoped(namespace=())


class OwnerCases(HistoryCases):
    """Owners: which users, sessions and namespaces have items."""

    @played
    def test_owners_are_listed_in_order_with_counts_and_times(self, store: Calls) -> Program:
        """Of each: how many items, archived ones too, not deleted ones, and when the first and last were created."""
        held = {"s2": [3, 1], "s10": [5], "": [2], "S2": [4, 4], "\U0001f375": [7], "\uff54": [6], "é": [8]}
        for session, seconds in held.items():
            place = mine(session_id=session)
            yield store.add_many([item(f"{session}{number}", at, place) for number, at in enumerate(seconds)])
        yield store.add(item("old", 9, mine(session_id="s2"), archived_by="summary"))
        yield store.add_many([item("nobody's", 0), item("gone", 0, mine(session_id="gone")), item("b", 1, theirs())])
        yield store.clear(metadata=mine(session_id="gone"))
        yield from (store.owners(by, within=mine()) for by in ("session_id", "user_id", "task_id"))
        yield from (store.owners(), store.scoped(user_id="ada").owners("session_id"))
        yield store.owners("session_id", within=mine(), limit=2, offset=1)

    @played
    def test_namespaces_are_listed_by_depth_beginning_and_end(self, store: Calls) -> Program:
        """Below a place, cut off at a depth and joined there, or only those with an end; values alone are the same."""
        names = ("a", "b", "ab", "a~", "a/", "a/b", "~1", "é", "\U0001f375", "0")
        places = [(), ("a", "x"), ("a", "x", "p"), *((one,) for one in names)]
        places += [(one, other, "p") for one in names for other in names[:4]]
        yield store.add_many([item(f"{place!r}", metadata=mine(namespace=place)) for place in (*places, ("gone", "p"))])
        yield store.clear(metadata=mine(namespace=("gone",)))
        yield store.add(item("another's", metadata=theirs(namespace=("c", "p"))))
        asked: list[dict[str, Any]] = [
            *({}, {"depth": 1}, {"depth": 2}, {"depth": 9}, {"suffix": ("p",)}, {"suffix": ("p",), "depth": 1}),
            *({"suffix": ("x",), "depth": 3}, {"limit": 3, "offset": 2}, {"limit": 2, "offset": 1, "depth": 1}),
        ]
        for named in asked:
            for place in ((), ("a",), ("a/",), ("nowhere",)):
                for counts in (True, False):
                    yield store.owners("namespace", within=mine(namespace=place), counts=counts, **named)

    @refused
    def test_what_owns_nothing_cannot_be_listed(self, store: Calls) -> Iterator[Call]:
        """Only ids and namespaces own; depth and suffix are for namespaces."""
        yield from (store.owners("content"), store.owners(""), store.owners("user_id", depth=1))
        yield from (store.owners("namespace", depth=0), store.owners("namespace", suffix="p"))
        yield from (store.owners(limit=-1), store.owners(offset=True), store.owners(counts=0))
