"""Order and time: the order of adding, the order of times, and the time between two bounds."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta, timezone
from typing import Any

from memoranda.errors import InputError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import Capability, Store
from memoranda_testing.case import Cases, moment, needs, note
from memoranda_testing.expect import contents, each_raises, equal


class AddedOrderCases(Cases):
    """The order of adding, whatever the clocks say."""

    async def test_a_conversation_is_read_in_the_order_it_was_said(self, store: Store) -> None:
        """A clock that was set back between two turns changes nothing in the order of adding."""
        scope = self.scope(session_id="s")
        for text, second in (("one", 50), ("two", 45), ("three", 46)):
            await store.add(note(text, scope, second))
        equal(contents(await store.search(metadata=scope, order="added")), ["three", "two", "one"], "newest first")
        found = [item async for item in store.scan(metadata=scope, order="added")]
        equal(contents(found), ["one", "two", "three"], "a scan in the order of adding")
        equal(contents(await store.window(metadata=scope)), ["one", "two", "three"], "the window")

    async def test_each_order_has_its_own_meaning(self, store: Store) -> None:
        """By created_at, by updated_at and by adding are three orders; ties follow the order of adding."""
        scope = self.scope()
        times = (("a", 3, 9), ("b", 1, 9), ("c", 1, 8), ("d", 2, 7))
        await store.add_many([note(text, scope, second, updated_at=moment(last)) for text, second, last in times])
        wanted = {"added": "abcd", "created": "bcda", "updated": "dcab", None: "bcda"}
        for order, letters in wanted.items():
            found = await store.search(metadata=scope, order=order)  # type: ignore[arg-type]  # its keys are orders
            equal("".join(contents(found)), letters[::-1], f"search by {order!r}")
            scanned = [item async for item in store.scan(metadata=scope, order=order)]  # type: ignore[arg-type]  # as above
            equal("".join(contents(scanned)), letters, f"scan by {order!r}")

    async def test_orders_may_agree_in_part(self, store: Store) -> None:
        """Whichever two of the three orders are the same, the third is not taken for them."""
        for created, updated in itertools.product((1234, 4321, 2143), repeat=2):
            scope, ways = self.scope(), {"added": "1234", "created": str(created), "updated": str(updated)}
            times = zip("abcd", ways["created"], ways["updated"], strict=True)
            await store.add_many([note(text, scope, int(one), updated_at=moment(int(two))) for text, one, two in times])
            for order, numbers in ways.items():
                letters = "".join(sorted("abcd", key=dict(zip("abcd", numbers, strict=True)).__getitem__))
                found = await store.search(metadata=scope, limit=2, offset=1, order=order)  # type: ignore[arg-type]  # its keys are orders
                equal("".join(contents(found)), letters[2:0:-1], f"a page by {order!r}")
                scanned = [item async for item in store.scan(metadata=scope, order=order)]  # type: ignore[arg-type]  # as above
                equal("".join(contents(scanned)), letters, f"scan by {order!r}")

    async def test_a_replaced_item_keeps_its_place(self, store: Store) -> None:
        """Adding again, updating and restoring leave an item in its place."""
        scope = self.scope()
        items = [note(text, scope, 0) for text in "abc"]
        await store.add_many(items)
        await store.add(note("A", scope, 5, id=items[0].id))
        await store.update(note("B", scope, 9, id=items[1].id, version=1))
        if Capability.DELETE in store.capabilities:
            await store.delete(items[0].id)
            await store.restore(items[0].id)
        equal(contents(await store.search(metadata=scope, order="added")), ["c", "B", "A"], "newest first")

    async def test_pages_of_every_order_meet(self, store: Store) -> None:
        """limit and offset cut the same listing: pages put together are the whole, and nothing is beyond its end."""
        scope = self.scope()
        await store.add_many([note(f"{number}", scope, number * 7 % 10) for number in range(10)])
        for order in ("created", "added", "updated"):
            whole = contents(await store.search(metadata=scope, limit=100, order=order))
            pages = [
                contents(await store.search(metadata=scope, limit=3, offset=offset, order=order))
                for offset in (0, 3, 6, 9, 12, 10**30)
            ]
            equal([text for page in pages for text in page], whole, f"pages by {order!r}")
        equal(await store.search(metadata=scope, limit=0, offset=3), [], "a limit of 0")

    async def test_wrong_pages_and_orders_are_refused(self, store: Store) -> None:
        """An offset is an integer of at least 0; an order has one of three names."""
        bad: dict[str, Any] = {"newest": "order", "": "order"}
        for order in bad:
            await each_raises(InputError, f"by {order!r}", search=store.search(order=order))  # type: ignore[arg-type]  # the mistake under test
        for offset in (-1, 1.5, "2", True):
            await each_raises(
                InputError,
                f"with the offset {offset!r}",
                search=store.search(offset=offset),  # type: ignore[arg-type]  # the mistake under test
                ranked=store.search_ranked(query="x", offset=offset),  # type: ignore[arg-type]  # as above
            )

    async def test_ranked_results_are_paged(self, store: Store) -> None:
        """Pages of a ranked search are cut from one ranking."""
        scope = self.scope()
        await store.add_many([note("tea " * (number + 1) + f"cup{number}", scope, number) for number in range(6)])
        whole = [found.item.id for found in await store.search_ranked(query="tea", metadata=scope, mode="text")]
        pages = [
            await store.search_ranked(query="tea", metadata=scope, mode="text", limit=2, offset=offset)
            for offset in (0, 2, 4, 6)
        ]
        equal([found.item.id for page in pages for found in page], whole, "pages of a ranking")


class TimeCases(Cases):
    """since and until."""

    async def test_since_is_included_and_until_is_not(self, store: Store) -> None:
        """Every read and every removal bounds created_at in the same way."""
        scope = self.scope()
        await store.add_many([note(f"tea {number}", scope, number) for number in range(6)])
        span: dict[str, Any] = {"since": moment(2), "until": moment(4)}
        equal(contents(await store.search(metadata=scope, **span)), ["tea 3", "tea 2"], "search")
        equal(await store.count(metadata=scope, **span), 2, "count")
        equal(contents([item async for item in store.scan(metadata=scope, **span)]), ["tea 2", "tea 3"], "scan")
        equal(contents(await store.window(metadata=scope, **span)), ["tea 2", "tea 3"], "window")
        ranked = await store.search_ranked(query="tea", metadata=scope, mode="text", **span)
        equal(sorted(contents(found.item for found in ranked)), ["tea 2", "tea 3"], "ranked search")
        equal(len(await store.search(metadata=scope, since=moment(4))), 2, "number since")
        equal(len(await store.search(metadata=scope, until=moment(4))), 4, "number until")
        equal(await store.clear(metadata=scope, **span), 2, "number cleared")
        left = ["tea 5", "tea 4", "tea 1", "tea 0"]
        equal(contents(await store.search(metadata=scope)), left, "what is left")

    @needs(Capability.PURGE)
    async def test_a_purge_can_be_bounded_by_time(self, store: Store) -> None:
        """What is older than a day goes for good, and nothing else."""
        scope = self.scope()
        await store.add_many([note(f"{number}", scope, number) for number in range(4)])
        equal(await store.purge(metadata=scope, until=moment(2)), 2, "number purged")
        equal(contents(await store.search(metadata=scope)), ["3", "2"], "what is left")

    async def test_times_are_texts_or_datetimes_with_a_zone(self, store: Store) -> None:
        """Zones are brought to UTC; a datetime without one is refused, as it could be any time."""
        scope = self.scope()
        await store.add_many([note("before", scope, 0), note("after", scope, 60)])
        instant = datetime.fromisoformat(moment(30))
        east = instant.astimezone(timezone(timedelta(hours=9)))
        for since in (instant, east, east.isoformat(), moment(30), "2024-03-01T00:00:30"):
            equal(contents(await store.search(metadata=scope, since=since)), ["after"], f"since {since!r}")
        wrong: list[Any] = [instant.replace(tzinfo=None), "yesterday", 5, "", instant.date()]
        for bad in wrong:
            await each_raises(
                InputError,
                f"since {bad!r}",
                search=store.search(since=bad),
                count=store.count(until=bad),
                clear=store.clear(metadata=scope, since=bad),
            )
        equal(await store.count(metadata=scope), 2, "count after refusals")


class WindowCases(Cases):
    """One call for what a model may be shown."""

    async def test_a_window_keeps_instructions_rounds_and_groups(self, store: Store) -> None:
        """However long ago the system message was, it is there; rounds are whole and so are tool calls."""
        scope = self.scope(session_id="s")
        items: list[MemoryItem] = [SystemMemory(content="be kind", metadata=scope)]
        for number in range(120):
            items.append(HumanMemory(content=f"q{number}", metadata=scope))
            items.append(AIMemory(content="", metadata=scope, tool_calls=[{"id": f"c{number}", "name": "look"}]))
            items.append(ToolMemory(content=f"r{number}", metadata=scope, tool_call_id=f"c{number}"))
            items.append(AIMemory(content=f"a{number}", metadata=scope))
        items.append(HumanMemory(content="last", metadata=scope))
        items.append(AIMemory(content="", metadata=scope, tool_calls=[{"id": "open", "name": "look"}]))
        await store.add_many(items)
        two = await store.window(metadata=scope, rounds=2)
        equal(contents(two), ["be kind", "q119", "", "r119", "a119", "last"], "the last two rounds")
        everything = await store.window(metadata=scope)
        equal(len(everything), len(items) - 1, "number without the call that nothing answers")
        few = await store.window(metadata=scope, tokens=8, counter=lambda _: 1)
        equal(contents(few), ["be kind", "q119", "", "r119", "a119", "last"], "rounds within eight tokens")
        equal(contents(await store.window(metadata=scope, limit=3)), ["be kind", "last"], "the newest three")
        equal(contents(await store.window(metadata=scope, rounds=0)), ["be kind"], "no round")
        handle = store.scoped(user_id=str(scope.user_id))
        equal(contents(await handle.window(rounds=2)), contents(two), "the window of a handle")

    async def test_a_window_shows_what_all_of_a_long_history_would_have_shown(self, store: Store) -> None:
        """Neither half of a group that began long ago nor late answers to an old question stand for what is newer."""
        scope = self.scope(session_id="s")
        items: list[MemoryItem] = [HumanMemory(content="begin", metadata=scope, group="g")]
        items += [AIMemory(content=f"a{number}", metadata=scope) for number in range(70)]
        await store.add_many([*items, AIMemory(content="end", metadata=scope, group="g"), note("last", scope)])
        shown = await store.window(metadata=scope, limit=3)
        equal(contents(shown), ["a69", "last"], "the newest three without half of a group")
        user = self.user()
        old, new = (MemoryMetadata(user_id=user, session_id=name) for name in ("old", "new"))
        items = [HumanMemory(content="asked long ago", metadata=old)]
        for number in range(3):
            items += [HumanMemory(content=f"q{number}", metadata=new), AIMemory(content=f"a{number}", metadata=new)]
        await store.add_many([*items, *(AIMemory(content=f"late {number}", metadata=old) for number in range(70))])
        bounds: list[dict[str, Any]] = [{"rounds": 2}, {"rounds": 2, "limit": 20}]
        for bound in (*bounds, {"tokens": 5, "counter": lambda _: 1}):
            shown = await store.window(metadata=MemoryMetadata(user_id=user), **bound)
            equal(contents(shown), ["q1", "a1", "q2", "a2"], f"the window with {sorted(bound)}")

    async def test_a_window_refuses_what_is_no_bound(self, store: Store) -> None:
        """Rounds, tokens and limit are integers of at least 0."""
        for bound in (-1, 1.5, "2", True):
            await each_raises(
                InputError,
                f"with {bound!r}",
                rounds=store.window(rounds=bound),  # type: ignore[arg-type]  # the mistake under test
                tokens=store.window(tokens=bound),  # type: ignore[arg-type]  # as above
                limit=store.window(limit=bound),  # type: ignore[arg-type]  # as above
            )
