"""Order and time: the order of adding, the order of times, and the time between two bounds."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from memoranda.items import AIMemory, HumanMemory, MemoryItem, SystemMemory, ToolMemory
from memoranda.store import Store
from memoranda_testing.case import moment
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.expect import contents, equal
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, Program, item, items, mine, played, refused

ORDERS = ("added", "created", "updated", None)


class AddedOrderCases(HistoryCases):
    """The order of adding, whatever the clocks say."""

    @played
    def test_a_conversation_is_read_in_the_order_it_was_said(self, store: Calls) -> Program:
        """A clock that was set back between two turns changes nothing in the order of adding."""
        place = mine(session_id="s")
        yield from (store.add(item(text, second, place)) for text, second in (("one", 50), ("two", 45), ("three", 46)))
        yield from (store.search(order="added"), store.scan(order="added"), store.window(metadata=place))

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
    def test_a_replaced_item_keeps_its_place(self, store: Calls) -> Program:
        """Adding again, updating and restoring leave an item in its place."""
        yield store.add_many(items(*"abc", second=0))
        yield from (store.add(item("A", 5, id="a")), store.update(item("B", 9, id="b", version=1)))
        yield from (store.delete("a"), store.restore("a"))

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


class TimeCases(HistoryCases):
    """since and until."""

    @played
    def test_since_is_included_and_until_is_not(self, store: Calls) -> Program:
        """Every read and every removal bounds created_at in the same way."""
        yield store.add_many(items(*(f"tea {number}" for number in range(8))))
        span: dict[str, Any] = {"since": moment(2), "until": moment(4)}
        reads = (store.search, store.count, store.scan, store.window, store.clear)
        yield store.search_ranked(query="tea", mode="text", **span)
        yield from (store.search(since=moment(4)), store.search(until=moment(4)))
        yield from (call(metadata=mine(), **span) for call in reads)
        yield store.purge(metadata=mine(), until=moment(6))

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
