"""Cases of several writers, and of writers that are interrupted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from facts_kit.case import FactsCases, objects, said
from memoranda.errors import ConflictError
from memoranda.items import MemoryItem
from memoranda.store import Store
from memoranda_facts import Candidate, Receipt, Source
from memoranda_testing.expect import equal, that

WRITERS = 4
EACH = 6
COUNTED = 3


class ConcurrencyCases(FactsCases):
    """What several writers may rely on."""

    async def test_concurrent_changes_of_a_slot_are_all_kept(self, store: Store) -> None:
        """Whatever the number of writers on one slot, none of their changes is lost, and each has its own entry."""
        handle = self.handle(store)
        writers = [self.facts(handle) for _ in range(WRITERS)]
        receipts = await asyncio.gather(
            *(
                writer.set("Ada", "likes", f"tea {number}-{turn}", sources="manual")
                for number, writer in enumerate(writers)
                for turn in range(EACH)
            )
        )
        entries = [entry for receipt in receipts for entry in receipt.entries]
        equal(len(set(entries)), WRITERS * EACH, "the number of different entries")
        wanted = sorted(f"tea {number}-{turn}" for number in range(WRITERS) for turn in range(EACH))
        equal(sorted(objects(await self.facts(handle).current())), wanted, "the values that hold")
        times = [receipt.at for receipt in receipts]
        equal(len(set(times)), len(times), "the number of different recorded times")

    async def test_of_several_with_the_same_expectation_one_succeeds(self, store: Store) -> None:
        """Writers that all expect an empty slot cannot all find one."""
        handle = self.handle(store)
        results = await asyncio.gather(
            *(
                self.facts(handle).set("Ada", "lives_in", f"City {number}", sources="manual", expect=[])
                for number in range(WRITERS)
            ),
            return_exceptions=True,
        )
        refused = [result for result in results if isinstance(result, ConflictError)]
        equal(len(refused), WRITERS - 1, "the number of writers that were refused")
        equal(len(await self.facts(handle).current()), 1, "the number of values")

    async def test_counting_with_expectations_loses_nothing(self, store: Store) -> None:
        """Writers that read a number and expect it to hold when they set the next one count right together."""
        handle = self.handle(store)

        async def count(turns: int) -> None:
            facts = self.facts(handle)
            while turns:
                seen = await facts.current("Ada", "city")
                number = 1 + max((int(str(fact.object)) for fact in seen), default=0)
                with suppress(ConflictError):
                    await facts.set("Ada", "city", number, sources="manual", expect=seen)
                    turns -= 1

        await asyncio.gather(*(count(COUNTED) for _ in range(WRITERS)))
        equal(objects(await self.facts(handle).current()), [str(WRITERS * COUNTED)], "the number that was reached")

    async def test_a_change_is_one_new_item(self, store: Store) -> None:
        """Every change adds a single item of type ``fact``, and no stored item is rewritten by it."""
        handle = self.handle(store)
        facts = self.facts(handle)

        async def held() -> dict[str, int]:
            return {item.id: item.version async for item in handle.scan()}

        changes: list[Callable[[], Awaitable[Receipt]]] = [
            lambda: facts.set("Ada", "lives_in", "Paris", sources="manual"),
            lambda: facts.set("Ada", "lives_in", "Rome", sources="manual"),
            lambda: facts.end("Ada", "lives_in", sources="manual"),
        ]
        for change in changes:
            before = await held()
            receipt = await change()
            after = await held()
            equal({name: after.get(name) for name in before}, before, "the versions of what was there before")
            equal(set(after) - set(before), set(receipt.entries), "the items that the change added")
            item = await handle.get(receipt.entries[0])
            that(item is not None and item.memory_type == "fact", "A change is no item of type fact.")
            await facts.undo(receipt)

    async def test_an_interrupted_batch_is_finished_by_applying_it_again(self, store: Store) -> None:
        """Of a batch that was written in part, the rest is written the next time, and nothing twice."""
        handle = self.handle(store)
        item = await said(handle, "I like tea, milk and rum.")
        batch = [
            Candidate(name, "likes", "tea", sources=(Source(item.id),), rule="r") for name in ("Ada", "Bob", "Eve")
        ]
        await self.facts(handle).apply(batch[:1])
        facts = self.facts(handle)
        receipt = await facts.apply(batch)
        equal(len(receipt.entries), 2, "the number of entries of the second time")
        found: list[MemoryItem] = [each async for each in handle.scan(memory_type="fact")]
        equal(len(found), 3, "the number of entries")
        equal(sorted(fact.subject for fact in await facts.current()), ["Ada", "Bob", "Eve"], "the subjects")
