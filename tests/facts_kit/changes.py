"""Cases of changes: trust and disputes, corrections, undo, merges, keys and expectations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from facts_kit.case import FactsCases, objects, said, states
from memoranda.errors import ConflictError, InputError
from memoranda.store import Store
from memoranda_facts import Candidate, Receipt, Source
from memoranda_testing.expect import equal, raises, that


class ChangeCases(FactsCases):
    """What changing facts promises."""

    async def test_a_later_but_less_trusted_value_is_disputed(self, store: Store) -> None:
        """Both are kept, the more trusted one first; with ``min_trust`` the other has no influence."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual", trust="user")
        receipt = await facts.set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual", trust="external")
        found = await facts.current()
        equal(
            [(str(fact.object), fact.state) for fact in found], [("Paris", "disputed"), ("Rome", "disputed")], "facts"
        )
        equal(set(receipt.disputed), {fact.id for fact in found}, "what the receipt names as disputed")
        trusted = await facts.current(min_trust="user")
        equal(states(trusted), {"Paris": "holds"}, "what holds by trusted sources alone")

    async def test_two_values_of_one_change_are_disputed(self, store: Store) -> None:
        """Values with the same valid time that were recorded together have no order."""
        handle = self.handle(store)
        facts = self.facts(handle)
        item = await said(handle, "I live in Paris, or was it Rome?")
        await facts.apply(
            [
                Candidate("Ada", "lives_in", city, valid_from="2026", sources=(Source(item.id),), rule="r")
                for city in ("Paris", "Rome")
            ]
        )
        equal(states(await facts.current()), {"Paris": "disputed", "Rome": "disputed"}, "states")

    async def test_a_less_trusted_end_or_correction_only_disputes(self, store: Store) -> None:
        """What is less trusted than a fact cannot take it away."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual", trust="user")
        (home,) = await facts.current()
        changes: list[Callable[[], Awaitable[Receipt]]] = [
            lambda: facts.end("Ada", "lives_in", sources="manual", trust="tool"),
            lambda: facts.correct(home, sources="manual", trust="tool"),
            lambda: facts.retract(home, sources="manual", trust="tool"),
        ]
        for change in changes:
            receipt = await change()
            equal(states(await facts.current()), {"Paris": "disputed"}, f"states after a less trusted {receipt.kind}")
            await facts.undo(receipt)
            equal(states(await facts.current()), {"Paris": "holds"}, f"states after the {receipt.kind} was undone")

    async def test_a_less_trusted_undo_only_disputes(self, store: Store) -> None:
        """A handle of a stranger takes back no change of the user; the user takes back both."""
        handle = self.handle(store)
        facts, stranger = self.facts(handle), self.facts(self.stranger(handle))
        change = await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual", trust="user")
        undone = await stranger.undo(change)
        equal(states(await facts.current()), {"Paris": "disputed"}, "states after a stranger's undo")
        await facts.undo(undone)
        equal(states(await facts.current()), {"Paris": "holds"}, "states after the stranger's undo was undone")
        await stranger.undo(change)
        await facts.undo(change)
        equal(states(await facts.current()), {}, "states after the user's own undo")

    async def test_a_less_trusted_merge_renames_nobody(self, store: Store) -> None:
        """A stranger cannot make the user's subject another's, nor another's facts the user's."""
        handle = self.handle(store)
        facts, stranger = self.facts(handle), self.facts(self.stranger(handle))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual", trust="user")
        await stranger.set("Mallory", "likes", "money", sources="manual")
        await stranger.merge("Mallory", "Ada", sources="manual")
        await stranger.merge("Ada", "Mallory", sources="manual")
        for reader in (facts, stranger, self.facts(handle)):
            equal([fact.subject for fact in await reader.current("Ada")], ["Ada"], "subjects of the user's facts")
        await facts.set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual", trust="user")
        equal(states(await facts.current("Ada")), {"Rome": "holds"}, "what holds of the user")

    async def test_an_unreadable_item_hides_nothing(self, store: Store) -> None:
        """Anybody may add an item of the type of facts. What no change can have written is passed over."""
        handle = self.handle(store)
        facts = self.facts(handle)
        change = await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        entry = await handle.get(change.entries[0])
        if entry is None:
            raise AssertionError("The entry of a change is not there.")
        stem, payload = entry.id.rpartition("-")[0], str(entry.payload)
        broken = {
            "note-1": payload,
            f"{stem}-x": payload,
            f"{stem}-2": "{}",
            f"{stem}-3": payload.replace('"2020"', '"long ago"'),
            f"{stem}-4": payload.replace('"kind":"set"', '"kind":"seize"'),
            f"{stem}-5": payload.replace('"Paris"', '{"ref":7}'),
            f"{stem}-6": payload.replace('"lives_in"', "null"),
        }
        for item_id, text in broken.items():
            that(item_id == "note-1" or item_id.endswith("x") or text != payload, f"{item_id} is as it was.")
            await self.stranger(handle).add(entry.model_copy(update={"id": item_id, "payload": text, "version": 0}))
        for reader in (facts, self.facts(handle)):
            equal(states(await reader.current()), {"Paris": "holds"}, "what holds beside unreadable items")
        await self.facts(handle).set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual")
        equal(states(await facts.current()), {"Rome": "holds"}, "what holds after another change")

    async def test_a_correction_was_never_true(self, store: Store) -> None:
        """A corrected value did not hold at any time, and the right one holds instead; what was believed stays."""
        facts = self.facts(self.handle(store))
        wrong = await facts.set("Ada", "lives_in", "Pisa", valid_from="2020", sources="manual")
        (home,) = await facts.current()
        await facts.correct(home, "Paris", sources="manual")
        equal(objects(await facts.at("2021")), ["Paris"], "the value of the past")
        equal(objects(await facts.known(wrong.at)), ["Pisa"], "what was believed before")
        history = [(str(fact.object), fact.state) for fact in await facts.history("Ada", "lives_in")]
        equal(history, [("Pisa", "retracted"), ("Paris", "holds")], "the history")

    async def test_every_kind_of_change_can_be_undone_and_done_again(self, store: Store) -> None:
        """Undo leaves what there was before; undoing that leaves what there was after. Twice is once."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("Countess", "likes", "tea", sources="manual")
        (home,) = await facts.current("Ada", "lives_in")

        async def seen() -> object:
            found = [(fact.subject, str(fact.object), fact.state, fact.trust) for fact in await facts.current()]
            return sorted(found)

        changes: list[Callable[[], Awaitable[Receipt]]] = [
            lambda: facts.set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual"),
            lambda: facts.end("Ada", "lives_in", sources="manual"),
            lambda: facts.correct(home, "Oslo", sources="manual"),
            lambda: facts.confirm(home, sources="manual", trust="operator"),
            lambda: facts.retract(home, sources="manual"),
            lambda: facts.merge("Ada", "Countess", sources="manual"),
        ]
        for change in changes:
            before = await seen()
            receipt = await change()
            after = await seen()
            that(before != after, f"The change {receipt.kind} did nothing.")
            undone = await facts.undo(receipt)
            equal(await seen(), before, f"what holds after the {receipt.kind} was undone")
            that(not (await facts.undo(receipt)).new, "Undoing a change twice was taken for a second change.")
            redone = await facts.undo(undone)
            equal(await seen(), after, f"what holds after the undo of the {receipt.kind} was undone")
            await facts.undo(redone)
            equal(await seen(), before, f"what holds after the {receipt.kind} was undone once more")
        with raises(InputError, "undoing what never was"):
            await facts.undo("no such change")

    async def test_undo_leaves_later_changes(self, store: Store) -> None:
        """Undoing an early change is as if it had never been recorded, and leaves those after it."""
        facts = self.facts(self.handle(store))
        first = await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("Ada", "lives_in", "Rome", valid_from="2022", sources="manual")
        await facts.undo(first)
        equal(objects(await facts.current()), ["Rome"], "what holds now")
        equal(objects(await facts.at("2021")), [], "what held when the undone value did")

    async def test_merged_names_are_one_subject(self, store: Store) -> None:
        """The facts of both names are read as one subject's, and compete for its slots."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("A. King", "lives_in", "Rome", valid_from="2021", sources="manual")
        equal(len(await facts.current()), 2, "the number of facts of two subjects")
        merged = await facts.merge("Ada", "A. King", sources="manual")
        found = await facts.current("A. King")
        equal([(fact.subject, str(fact.object)) for fact in found], [("Ada", "Rome")], "the facts of the one subject")
        await facts.set("A. King", "likes", "tea", sources="manual")
        equal(objects(await facts.current("Ada", "likes")), ["tea"], "what was set under the other name")
        await facts.undo(merged)
        equal(objects(await facts.current("A. King", "likes")), ["tea"], "the facts of the other name afterwards")
        with raises(InputError, "merging a subject with itself"):
            await facts.merge("Ada", "Ada", sources="manual")

    async def test_the_same_key_is_written_once(self, store: Store) -> None:
        """A change whose key is known returns the receipt of the first; so does the same rule on the same item."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "I like tea.")
        keyed = [await facts.set("Ada", "likes", "tea", sources="manual", key="k") for _ in range(2)]
        equal([receipt.new for receipt in keyed], [True, False], "which receipts are new")
        equal(keyed[0].entries, keyed[1].entries, "the entries of both receipts")
        again = [await facts.set("Ada", "likes", "milk", sources=[item], rule="r") for _ in range(2)]
        equal(again[0].id, again[1].id, "the changes of one rule on one item")
        (milk,) = [fact for fact in await facts.current() if fact.object == "milk"]
        for change in (facts.confirm, facts.retract):
            twice = [await change(milk, sources=[item], rule="r") for _ in range(2)]
            equal([receipt.new for receipt in twice], [True, False], f"which receipts of {twice[0].kind} are new")
            await facts.undo(twice[0])
            that((await change(milk, sources=[item], rule="r")).new, "What was undone could not be done again.")
        found = await self.facts(handle).history("Ada", "likes")
        equal([len(fact.entries) for fact in found], [1, 1], "the number of entries of each fact")

    async def test_candidates_are_applied_once_even_after_an_undo(self, store: Store) -> None:
        """What a rule found in an item stays undone when the item is extracted again."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "I moved from Paris to Rome.")
        source = (Source(item.id, 2, 28),)
        candidates = [
            Candidate("Ada", "lives_in", "Paris", kind="end", valid_to="2026-01-05", sources=source, rule="moved"),
            Candidate("Ada", "lives_in", "Rome", valid_from="2026-01-05", sources=source, rule="moved"),
        ]
        receipt = await facts.apply(candidates)
        equal((receipt.kind, len(receipt.entries)), ("apply", 2), "the receipt of a change set")
        await facts.undo(receipt)
        that(not (await self.facts(handle).apply(candidates)).new, "The same candidates were applied twice.")
        equal(await facts.current(), [], "what holds after the undo")

    async def test_a_proposed_correction_takes_only_what_it_is_about(self, store: Store) -> None:
        """It replaces the one value that holds, or the one that it names; of many values it takes no other."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "No, it was Rome, and I meant mint tea.")
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        for drink in ("tea", "milk"):
            await facts.set("Ada", "likes", drink, valid_from="2020", sources="manual")
        source = (Source(item.id),)
        await facts.apply(
            [
                Candidate("Ada", "lives_in", "Rome", kind="correct", sources=source, rule="r"),
                Candidate("Ada", "likes", "mint tea", kind="correct", replaces="Tea", sources=source, rule="r"),
                Candidate("Ada", "likes", "juice", kind="correct", sources=source, rule="r"),
            ]
        )
        equal(objects(await facts.at("2021", "Ada", "lives_in")), ["Rome"], "what was true instead")
        equal(sorted(objects(await facts.current("Ada", "likes"))), ["juice", "milk", "mint tea"], "what is liked")

    async def test_expectations_are_compared_and_set(self, store: Store) -> None:
        """With ``expect``, a change is made only if exactly those facts hold; otherwise nothing is changed."""
        handle = self.handle(store)
        facts, other = self.facts(handle), self.facts(handle)
        await facts.set("Ada", "lives_in", "Paris", sources="manual", expect=[])
        seen = await facts.current("Ada", "lives_in")
        await other.set("Ada", "lives_in", "Rome", sources="manual", expect=seen)
        with raises(ConflictError, "setting a value where another holds than expected"):
            await facts.set("Ada", "lives_in", "Oslo", sources="manual", expect=seen)
        with raises(ConflictError, "setting a value where none was expected"):
            await facts.set("Ada", "lives_in", "Oslo", sources="manual", expect=[])
        equal(objects(await facts.current()), ["Rome"], "what holds")

    async def test_what_makes_no_sense_is_refused(self, store: Store) -> None:
        """Nothing is written for input that no fact can have."""
        facts = self.facts(self.handle(store))

        async def attempt(**fields: object) -> None:
            named = {"subject": "Ada", "predicate": "likes", "value": "tea", "sources": "manual", **fields}
            await facts.set(**named)  # type: ignore[arg-type]  # wrong on purpose

        wrong: dict[str, dict[str, object]] = {
            "without sources": {"sources": []},
            "from an item that is not there": {"sources": ["nowhere"]},
            "without a subject": {"subject": " "},
            "without a predicate": {"predicate": ""},
            "without a value": {"value": ""},
            "with a list": {"value": ["tea"]},
            "with no number": {"value": float("nan")},
            "with too much confidence": {"confidence": 1.5},
            "of no date": {"valid_from": "last spring"},
            "that ends before it begins": {"valid_from": "2021", "valid_to": "2020"},
            "of no trust": {"trust": "absolute"},
        }
        for name, fields in wrong.items():
            with raises(InputError, f"a fact {name}"):
                await attempt(**fields)
        equal(await facts.history(), [], "what was written")
