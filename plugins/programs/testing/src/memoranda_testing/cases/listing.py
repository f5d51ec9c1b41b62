"""Counting, scanning and archived items."""

from __future__ import annotations

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import Store
from memoranda_testing.case import Cases, alone, note
from memoranda_testing.expect import contents, equal, raises, that


class CountCases(Cases):
    """Counting what matches."""

    async def test_count_counts_what_matches(self, store: Store) -> None:
        """A filter by metadata means what it means in a search; archived items count."""
        user = self.user()
        for number, session in enumerate(("a", "a", "b", "", None)):
            archived = "summary" if number == 0 else None
            await store.add(
                note("x", MemoryMetadata(user_id=user, session_id=session, extra={"n": number}), archived_by=archived)
            )
        for fields, wanted in (({}, 5), ({"session_id": "a"}, 2), ({"session_id": ""}, 1), ({"extra": {"n": 1.0}}, 1)):
            found = await store.count(metadata=MemoryMetadata(user_id=user, **fields))
            equal(found, wanted, f"count with {fields}")
        equal(await store.count(metadata=self.scope()), 0, "count of a user without items")

    async def test_count_is_not_limited(self, store: Store) -> None:
        """All items count, beyond the default limit of a search."""
        scope = self.scope()
        await store.add_many([note("x", scope, number) for number in range(37)])
        equal(await store.count(metadata=scope), 37, "count")

    @alone
    async def test_bare_count_counts_everything(self, store: Store) -> None:
        """Without a filter all items count, whatever their owner."""
        equal(await store.count(), 0, "count of an empty store")
        await store.add_many([note("a", self.scope()), note("b", self.scope()), note("c", MemoryMetadata())])
        equal(await store.count(), 3, "count")


class ScanCases(Cases):
    """Scanning yields everything that matches, oldest first."""

    async def test_scan_yields_oldest_first(self, store: Store) -> None:
        """The order is that of time; of equal time, the first added first."""
        scope = self.scope()
        for content, second in (("c", 5), ("a", 1), ("d", 5), ("b", 3), ("e", 5)):
            await store.add(note(content, scope, second))
        equal(contents([item async for item in store.scan(metadata=scope)]), list("abcde"), "scan, oldest first")

    async def test_scan_yields_every_item_once(self, store: Store) -> None:
        """A thousand items, most of equal time, come each exactly once and in order, whatever the page size."""
        scope = self.scope()
        await store.add_many([note(str(number), scope, number // 400) for number in range(1000)])
        scanned = contents([item async for item in store.scan(metadata=scope)])
        equal(scanned, [str(number) for number in range(1000)], "scan of a thousand items")

    async def test_scan_respects_filters(self, store: Store) -> None:
        """Type, status, metadata and archived state narrow a scan."""
        scope = self.scope()
        await store.add(note("a", scope, 1, status=MemoryStatus.DRAFT))
        await store.add(note("b", scope, 2, memory_type="other"))
        await store.add(note("c", scope, 3, archived_by="summary"))
        for filters, wanted in (
            ({}, ["a", "b", "c"]),
            ({"memory_type": "note"}, ["a", "c"]),
            ({"memory_type": ""}, []),
            ({"status": MemoryStatus.DRAFT}, ["a"]),
            ({"archived": True}, ["c"]),
            ({"archived": False}, ["a", "b"]),
            ({"archived": None}, ["a", "b", "c"]),
        ):
            scanned = [item async for item in store.scan(metadata=scope, **filters)]
            equal(contents(scanned), wanted, f"scan with {filters}")
        equal([item async for item in store.scan(metadata=self.scope())], [], "scan of a user without items")

    async def test_scan_survives_writes_in_between(self, store: Store) -> None:
        """Items that are there for the whole scan are yielded exactly once while others come, change and go."""
        for order in ("created", "added"):
            scope = self.scope()
            items = [note(str(number), scope, number) for number in range(1_200 if self.is_brief else 4_500)]
            await store.add_many(items)
            seen: list[str] = []
            gone: set[str] = set()
            async for item in store.scan(metadata=scope, order=order):
                seen.append(item.content)
                if len(seen) in (1, 120, 250, 480, 950, 1_900, 3_800):
                    await store.add(note("before", scope, 0))
                    await store.add(note("after", scope, 9_000))
                    await store.add(note("120", scope, 120, id=items[120].id))
                    for place, second in ((0, 9_500), (-1, 0)) if order == "added" else ():
                        await store.add(note(items[place].content, scope, second, id=items[place].id))
                    some = [each.id for each in items[len(seen) // 2 + 1 : len(seen) // 2 + 8]]
                    await store.clear(metadata=scope, where={"id": {"$in": some}})
                    gone.update(each.content for each in items if each.id in some)
            stayed = [content for content in seen if content not in ("before", "after", "120") and content not in gone]
            wanted = [item.content for item in items if item.content != "120" and item.content not in gone]
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
        async for item in first:
            other = await anext(second)
            (newest,) = await store.search(metadata=scope, limit=1)
            pairs.append((item.content, other.content, newest.content))
        await second.aclose()
        equal(pairs, [(str(number), str(number), "39") for number in range(40)], "two scans side by side")

    @alone
    async def test_bare_scan_yields_everything(self, store: Store) -> None:
        """Without a filter all items are yielded, whatever their owner."""
        await store.add_many([note("a", self.scope(), 1), note("b", MemoryMetadata(), 2), note("c", self.scope(), 3)])
        equal(contents([item async for item in store.scan()]), ["a", "b", "c"], "bare scan")

    async def test_scan_refuses_a_bad_filter(self, store: Store) -> None:
        """An unknown status is an InputError as soon as the scan starts."""
        with raises(InputError, "scan(status='done')"):
            await anext(store.scan(status="done"))  # type: ignore[arg-type]  # the mistake under test


class ArchiveCases(Cases):
    """Archived items are kept, but searches no longer show them."""

    async def test_archived_items_are_not_searched(self, store: Store) -> None:
        """Neither a listing nor a text search nor a ranked search shows them, and a limit is filled by the others."""
        scope = self.scope()
        await store.add_many([note("tea one", scope, 1), note("tea two", scope, 2, archived_by="summary")])
        equal(contents(await store.search(metadata=scope, limit=1)), ["tea one"], "listing")
        for mode in ("substring", "text"):
            found = await store.search(query="tea", metadata=scope, mode=mode)
            equal(contents(found), ["tea one"], f"search mode {mode!r}")

    async def test_archived_items_are_read_by_id(self, store: Store) -> None:
        """get returns an archived item with the id of what stands for it."""
        item = note("archived", self.scope(), archived_by="summary-1")
        await store.add(item)
        found = await store.get(item.id)
        equal(found and found.archived_by, "summary-1", "archived_by")

    async def test_archiving_hides_and_can_be_undone(self, store: Store) -> None:
        """Items leave the searches by an update that archives them, together with their summary, and come back."""
        scope = self.scope()
        turns = [note(f"turn {number}", scope, number) for number in range(3)]
        await store.add_many(turns)
        stored = await store.search(metadata=scope)
        summary = note("summary", scope, 10)
        archived = await store.update_many([summary, *[_archived(item, summary.id) for item in stored]])
        equal(contents(await store.search(metadata=scope)), ["summary"], "search after archiving")
        equal(await store.count(metadata=scope), 4, "count after archiving")
        await store.update_many([_archived(item, None) for item in archived[1:]])
        equal(len(await store.search(metadata=scope)), 4, "number found after undoing")

    async def test_the_empty_text_archives_too(self, store: Store) -> None:
        """archived_by is a value as soon as it is not None."""
        scope = self.scope()
        await store.add(note("x", scope, archived_by=""))
        equal(await store.search(metadata=scope), [], "search")
        that(len([item async for item in store.scan(metadata=scope, archived=True)]) == 1, "A scan missed the item.")


def _archived(item: MemoryItem, by: str | None) -> MemoryItem:
    """Return the item, archived or brought back."""
    item.archived_by = by
    return item
