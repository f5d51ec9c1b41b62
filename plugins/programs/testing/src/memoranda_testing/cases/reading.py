"""Order, limits, filters, time, windows, scans, and the owners of what is stored."""

from __future__ import annotations

import itertools
from typing import Any

from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import Store
from memoranda_testing.case import moment, note
from memoranda_testing.expect import equal
from memoranda_testing.programs import Calls, HistoryCases, Program, item, items, mine, played, theirs

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


class FilterCases(HistoryCases):
    """None means any; every other value must match."""

    @played
    def test_scope_fields_are_compared_exactly(self, store: Calls) -> Program:
        """Case, spaces, wildcards and composed characters count; the empty text is a value, neither None nor any."""
        fields = ("session_id", "task_id", "agent_id")
        for name in fields:
            yield store.add_many([item(f"{name}={value!r}", metadata=mine(**{name: value})) for value in SESSIONS])
        yield from (store.search(metadata=mine(**{name: value})) for name in fields for value in SESSIONS)
        yield from (store.search(metadata=MemoryMetadata(user_id=user)) for user in ("Ada", "ada ", "ada%", "ad", ""))
        yield store.search(metadata=mine(session_id="s", agent_id="s"))


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

    async def test_several_scans_run_side_by_side(self, store: Store) -> None:
        """Scans in turn, and searches, do not disturb each other; leaving a scan releases what it held."""
        scope = self.scope()
        await store.add_many([note(str(number), scope, number) for number in range(40)])
        for _ in range(30):
            left = store.scan(metadata=scope)
            await anext(left)
            await left.aclose()
        second, pairs = store.scan(metadata=scope), []
        async for one in store.scan(metadata=scope):
            (newest,) = await store.search(metadata=scope, limit=1)
            pairs.append((one.content, (await anext(second)).content, newest.content))
        await second.aclose()
        equal(pairs, [(str(number), str(number), "39") for number in range(40)], "two scans side by side")
        await store.add(note("later", scope, 100))


class OwnerCases(HistoryCases):
    """Owners: which users, sessions and namespaces have items."""

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
