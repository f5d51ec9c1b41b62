"""Counting, scanning and archived items; namespaces, and the owners of what is stored."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryMetadata, MemoryStatus
from memoranda.store import Store
from memoranda_testing.case import note
from memoranda_testing.cases.histories import HistoryCases
from memoranda_testing.expect import contents, equal, raises
from memoranda_testing.model.steps import Call
from memoranda_testing.programs import Calls, Program, item, items, mine, played, refused, theirs


class CountCases(HistoryCases):
    """Counting what matches."""

    @played
    def test_count_counts_what_matches(self, store: Calls) -> Program:
        """A filter by metadata means what it means in a search; archived items count, and there is no limit."""
        yield store.count()
        for number, session in enumerate(("a", "a", "b", "", None)):
            place = mine(session_id=session, extra={"n": number})
            yield store.add(item(f"x{number}", metadata=place, archived_by=None if number else "summary"))
        yield store.add_many([item("y", metadata=theirs()), item("z", metadata=MemoryMetadata())])
        yield store.add_many(items(*(f"tea {number}" for number in range(37))))
        asked: list[dict[str, Any]] = [{}, {"session_id": "a"}, {"session_id": ""}, {"extra": {"n": 1.0}}]
        yield from (store.count(metadata=mine(**fields)) for fields in (*asked, {"user_id": "carl"}))
        yield store.count()


class ScanCases(HistoryCases):
    """Scanning yields everything that matches, oldest first."""

    @played
    def test_scan_yields_oldest_first(self, store: Calls) -> Program:
        """The order is that of time; of equal time, the first added first, whatever the owner."""
        yield from (store.add(item(*each)) for each in (("c", 5), ("a", 1), ("d", 5), ("b", 3), ("e", 5)))
        yield store.add_many([item("f", 4, theirs()), item("g", 6, MemoryMetadata())])
        yield from (store.scan(), store.scan(metadata=mine()), store.scan(status="done"))

    @played
    def test_scan_yields_every_item_once(self, store: Calls) -> Program:
        """A thousand items, most of equal time, come each exactly once and in order, whatever the page size."""
        yield store.add_many([item(str(number), number // 400) for number in range(1000)])
        yield store.scan()

    @played
    def test_scan_respects_filters(self, store: Calls) -> Program:
        """Type, status, metadata and archived state narrow a scan."""
        yield store.add(item("a", 1, status=MemoryStatus.DRAFT))
        yield store.add_many([item("b", 2, memory_type="other"), item("c", 3, archived_by="summary")])
        yield from (store.scan(memory_type=kind) for kind in ("note", ""))
        yield from (store.scan(archived=archived) for archived in (True, False, None))
        yield from (store.scan(status=MemoryStatus.DRAFT), store.scan(metadata=theirs()))

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


class ArchiveCases(HistoryCases):
    """Archived items are kept, but searches no longer show them."""

    @played
    def test_archived_items_are_not_searched(self, store: Calls) -> Program:
        """No search shows them, a limit is filled by the others, and get returns them; the empty text archives, too."""
        yield store.add_many([item("tea one", 1), item("tea two", 2, archived_by="summary"), item("x", archived_by="")])
        yield store.search(limit=1)
        yield from (store.search(query="tea", mode=mode, limit=1) for mode in ("substring", "text"))
        yield from (store.get("tea two"), store.scan(archived=True))

    @played
    def test_archiving_hides_and_can_be_undone(self, store: Calls) -> Program:
        """Items leave the searches by an update that archives them, together with their summary, and come back."""
        turns = [f"turn {number}" for number in range(3)]
        yield store.add_many(items(*turns))
        yield store.update_many(
            [item("summary", 10), *(item(each, archived_by="summary", version=1) for each in turns)]
        )
        yield from (store.search(), store.count())
        yield store.update_many([item(each, version=2) for each in turns])
        yield store.search()


NASTY = [
    *(("a",), ("ab",), ("a", "b"), ("a/b",), ("a", ""), ("a~1b",), ("A",), ("á",), ("a", "b", "c"), ("%",), ("a%",)),
    *(("a_",), ("a*",), ("a?",), ("[a]",), ("a[!x]", "b"), ("*", "b"), ("a\\",), ("a ",), ("users", "Ada L", "日本")),
    *(("a" * 300,), ("a" * 300 + "b",), ("a", "\uffff"), ("a", "\U0001f989"), ("a", "\U0010ffff", "x")),
    *(("a\U0010ffff",), ()),
]
"""Namespaces that are easily taken for one another."""


class NamespaceCases(HistoryCases):
    """Namespaces are a hierarchy."""

    @played
    def test_a_namespace_matches_what_lies_in_it_and_below(self, store: Calls) -> Program:
        """Element by element: ('a',) is no beginning of ('ab',), and letters, slashes and wildcards are themselves."""
        yield store.add_many([item(f"{place!r}"[:99], metadata=mine(namespace=place)) for place in NASTY])
        for place in NASTY:
            yield store.search(metadata=mine(namespace=place), limit=100)
            yield store.count(metadata=mine(namespace=place))
            yield store.search(where={"namespace": list(place)}, limit=100)

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
