"""Cases of what is read: two clocks, kinds of predicates, names, questions, references and profiles."""

from __future__ import annotations

from facts_kit.case import FactsCases, objects, states
from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_facts import Facts, Ref
from memoranda_testing.expect import equal, raises, that


class ReadingCases(FactsCases):
    """What reading facts promises."""

    async def test_a_later_valid_time_supersedes_an_earlier_one(self, store: Store) -> None:
        """Of two values of a ``one`` slot, the one that holds later is current, and the other held before."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Rome", valid_from="2026-03", sources="manual")
        await facts.set("Ada", "lives_in", "Paris", valid_from="2025", sources="manual")
        equal(objects(await facts.current()), ["Rome"], "the value that holds now")
        equal(objects(await facts.at("2025-06")), ["Paris"], "the value that held before")
        equal(objects(await facts.at("2024")), [], "the values before anything is known")

    async def test_a_bounded_value_splits_the_one_around_it(self, store: Store) -> None:
        """A value that is known with its end interrupts another, which holds again afterwards."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("Ada", "lives_in", "Oslo", valid_from="2022-01", valid_to="2022-06", sources="manual")
        found = [objects(await facts.at(moment)) for moment in ("2021", "2022-03", "2022-06-30", "2022-07", "2025")]
        equal(found, [["Paris"], ["Oslo"], ["Oslo"], ["Paris"], ["Paris"]], "the values one after the other")

    async def test_a_coarse_date_is_asked_for_as_its_end(self, store: Store) -> None:
        """What began or was learned within a month is known of that month; what a month ends holds throughout it."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020-03-15", valid_to="2020-05", sources="manual")
        found = [objects(await facts.at(moment)) for moment in ("2020-02", "2020-03-14", "2020-03", "2020-05", "2020")]
        equal(found, [[], [], ["Paris"], ["Paris"], []], "the values of coarse dates")

    async def test_an_earlier_value_does_not_come_back_when_its_successor_ends(self, store: Store) -> None:
        """An open value replaces the earlier one for good; ending it leaves nothing."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("Ada", "lives_in", "Rome", valid_from="2022", sources="manual")
        await facts.end("Ada", "lives_in", "Rome", at="2024", sources="manual")
        equal(objects(await facts.current()), [], "the values after the last one ended")
        equal(objects(await facts.at("2023")), ["Rome"], "the value before its end")

    async def test_what_was_believed_is_kept(self, store: Store) -> None:
        """``known`` returns what was believed then, whatever was learned later; ``state`` takes both clocks."""
        facts = self.facts(self.handle(store))
        first = await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        second = await facts.set("Ada", "lives_in", "Rome", valid_from="2021", sources="manual")
        equal(objects(await facts.known(first.at)), ["Paris"], "what was believed at first")
        equal(objects(await facts.known(second.at)), ["Rome"], "what was believed later")
        equal(objects(await facts.state(valid="2022", known=first.at)), ["Paris"], "2022 as it was known at first")
        equal(objects(await facts.state(valid="2020", known=second.at)), ["Paris"], "2020 as it was known later")

    async def test_many_values_stand_side_by_side(self, store: Store) -> None:
        """Values of a ``many`` predicate, and of one that is not declared, never replace each other."""
        facts = self.facts(self.handle(store))
        for predicate, value in (("likes", "Tea"), ("likes", "coffee"), ("owns", "a cat"), ("owns", "a dog")):
            await facts.set("Ada", predicate, value, sources="manual")
        equal(objects(await facts.current()), ["tea", "coffee", "a cat", "a dog"], "the values, as they are normalised")
        await facts.end("Ada", "likes", "TEA", sources="manual")
        equal(objects(await facts.current("Ada", "likes")), ["coffee"], "the values after one of them ended")

    async def test_the_same_value_again_is_the_same_fact(self, store: Store) -> None:
        """A value that is asserted twice is one fact with two entries, since the first of them."""
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "likes", "tea", valid_from="2020", sources="manual")
        await facts.set("ada", "likes", " Tea", valid_from="2022", sources="manual")
        found = await facts.current()
        equal([(str(fact.object), fact.valid_from, len(fact.entries)) for fact in found], [("tea", "2020", 2)], "facts")

    async def test_events_stay(self, store: Store) -> None:
        """Each event is a fact of its own from its time on, and cannot end."""
        facts = self.facts(self.handle(store))
        for when in ("2020", "2022-05"):
            await facts.set("Ada", "visited", "Oslo", valid_from=when, sources="manual")
        equal([fact.valid_from for fact in await facts.current()], ["2020", "2022-05"], "when each event was")
        equal(len(await facts.at("2021")), 1, "the number of events before the second one")
        with raises(InputError, "ending an event"):
            await facts.end("Ada", "visited", sources="manual")

    async def test_names_that_mean_the_same_are_one(self, store: Store) -> None:
        """Aliases of subjects and predicates are the names that they stand for, whatever their case."""
        facts = self.facts(self.handle(store))
        await facts.set("Countess of Lovelace", "home", "Paris", valid_from="2020", sources="manual")
        await facts.set("ada", "lives in", "Rome", valid_from="2021", sources="manual")
        found = await facts.current("ADA", "residence")
        equal([(fact.subject, fact.predicate, fact.object) for fact in found], [("Ada", "lives_in", "Rome")], "facts")

    async def test_dependents_become_unsure(self, store: Store) -> None:
        """When a fact ends, what depends on it is ``unsure``, and what depends on that; undoing it makes them sure."""
        facts = self.facts(self.handle(store))
        home = await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        way = await facts.set("Ada", "commutes_by", "metro", sources="manual", depends_on=home.entries)
        pass_ = await facts.set("Ada", "has", "a metro pass", sources="manual", depends_on=way.entries)
        wanted = {"Paris": "holds", "metro": "holds", "a metro pass": "holds"}
        equal(states(await facts.current()), wanted, "states before the end")
        end = await facts.end("Ada", "lives_in", sources="manual")
        equal(states(await facts.current()), {"metro": "unsure", "a metro pass": "unsure"}, "states after the end")
        equal(set(end.unsure), {*way.entries, *pass_.entries}, "what the receipt names as unsure")
        await facts.undo(end)
        equal(states(await facts.current()), wanted, "states after the end was undone")

    async def test_a_question_finds_what_holds_and_nothing_else(self, store: Store) -> None:
        """Search finds current values, by any name; old ones with ``history``; nothing where nothing is known."""
        facts = await self._known(store)
        equal(objects(await facts.search("Where does Ada live?")), ["Rome"], "what answers the question")
        equal(objects(await facts.search("Ada's residence")), ["Rome"], "what an alias finds")
        found = await facts.search("Where does Ada live?", history=True)
        equal(set(objects(found)), {"Rome", "Paris"}, "what history finds")
        for unknown in ("What is Ada's shoe size?", "Where does Grace live?", "quantum chromodynamics", ""):
            equal(objects(await facts.search(unknown)), [], "what a question about nothing known finds")
        equal(await facts.search("Where does Ada live?", limit=0), [], "what a limit of 0 returns")

    async def test_references_are_followed(self, store: Store) -> None:
        """``follow`` goes from a fact's object to the facts about it."""
        facts = await self._known(store)
        equal(objects(await facts.follow("Ada", "employer", "city")), ["London"], "the city of Ada's employer")
        equal((await facts.current("Ada", "employer"))[0].object, Ref("Analytical Ltd"), "an object that refers")
        equal(await facts.follow("Ada", "employer", "likes"), [], "what is not known of it")

    async def test_a_profile_fits_its_budget(self, store: Store) -> None:
        """A profile has pinned predicates first, a date and an id on each line, and no more tokens than asked for."""
        facts = await self._known(store)
        lines = (await facts.profile(tokens=1_000)).splitlines()
        equal(len(lines), len(await facts.current()), "the number of lines")
        that(lines[0].startswith("- Ada name: Ada Lovelace (since 2026"), "A pinned predicate does not come first.")
        short = lines[0].rpartition("[")[2].rstrip("]")
        found = await facts.get(short)
        that(found is not None and found.object == "Ada Lovelace", "The id of a line does not lead to its fact.")
        for tokens in (0, 20, 40):
            that(len(await facts.profile(tokens=tokens)) <= 4 * tokens, f"A profile has more than {tokens} tokens.")

    async def _known(self, store: Store) -> Facts:
        facts = self.facts(self.handle(store))
        await facts.set("Ada", "lives_in", "Paris", valid_from="2020", sources="manual")
        await facts.set("Ada", "lives_in", "Rome", valid_from="2026-03", sources="manual")
        await facts.set("Ada", "employer", "Analytical Ltd", sources="manual")
        await facts.set("Analytical Ltd", "city", "London", sources="manual")
        await facts.set("Ada", "likes", "green tea", sources="manual")
        await facts.set("Ada", "name", "Ada Lovelace", valid_from="2026", sources="manual")
        return facts

    async def test_no_user_reads_the_facts_of_another(self, store: Store) -> None:
        """Facts belong to the handle's user, in every session; without a user there are none."""
        handle = self.handle(store)
        session = handle.scoped(session_id="one")
        await self.facts(session).set("Ada", "likes", "tea", sources="manual")
        equal(objects(await self.facts(handle).current()), ["tea"], "what another session of the user reads")
        equal(await self.facts(self.handle(store)).current(), [], "what another user reads")
        with raises(InputError, "facts of a store without an owner"):
            self.facts(store)

    async def test_changes_are_no_part_of_a_conversation(self, store: Store) -> None:
        """No window, plain search or recall shows the entries of facts."""
        handle = self.handle(store)
        await self.facts(handle).set("Ada", "likes", "tea", sources="manual")
        shown = [*await handle.window(), *await handle.search(), *await handle.recall("What does Ada like?")]
        equal(shown, [], "what is shown of a conversation")
