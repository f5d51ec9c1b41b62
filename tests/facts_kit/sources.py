"""Cases of sources: why a fact holds, and what happens when its sources are gone."""

from __future__ import annotations

from facts_kit.case import FactsCases, objects, said, states
from memoranda.items import AIMemory
from memoranda.store import Capability, Store
from memoranda_facts import Source
from memoranda_testing.case import needs
from memoranda_testing.expect import equal, that


class SourceCases(FactsCases):
    """What sources promise."""

    async def test_why_names_sources_rule_and_what_was_replaced(self, store: Store) -> None:
        """``why`` returns the text of each source, the rule, what the fact replaced, and what decided."""
        handle = self.handle(store)
        facts = self.facts(handle)
        old = await said(handle, "I live in Paris.", "2020-01-01T00:00:00+00:00")
        new = await said(handle, "Hello! I live in Rome now.", "2021-01-01T00:00:00+00:00")
        await facts.set("Ada", "lives_in", "Paris", sources=[old], rule="lives")
        await facts.set("Ada", "lives_in", "Rome", sources=[Source(new.id, 7, 25)], rule="lives now")
        (home,) = await facts.current()
        why = await facts.why(home)
        equal([support.text for support in why.sources], ["I live in Rome now"], "the texts of the sources")
        equal((why.rule, objects(why.replaced)), ("lives now", ["Paris"]), "the rule, and what was replaced")
        that("later valid time" in why.decided_by, "Why does not say what decided.")
        equal(home.valid_from, new.created_at, "the time since which a fact holds that does not say so")
        (past, _) = await facts.history("Ada", "lives_in")
        equal(objects((await facts.why(past.id)).replaced_by), ["Rome"], "what replaced the old value")

    async def test_a_fact_is_trusted_as_its_least_trusted_source(self, store: Store) -> None:
        """Neither the caller nor the handle can give it more than its sources have."""
        handle = self.handle(store)
        mine, theirs = await said(handle, "I like tea."), AIMemory(content="You like milk.")
        await handle.add(theirs)
        facts = self.facts(handle)
        for value, sources in (("tea", [mine]), ("milk", [theirs]), ("both", [mine, theirs])):
            await facts.set("Ada", "likes", value, sources=sources, trust="operator")
        low = handle.scoped(user_id=handle.bounds.user_id, trust="external")  # type: ignore[union-attr,arg-type]
        await self.facts(low).set("Ada", "likes", "rum", sources="manual")
        found = {str(fact.object): fact.trust for fact in await facts.current()}
        equal(found, {"tea": "user", "milk": "agent", "both": "agent", "rum": "external"}, "trust by value")

    @needs(Capability.PURGE)
    async def test_facts_go_with_their_sources(self, store: Store) -> None:
        """When an item is purged, facts without other support go, with what was made from them; nothing is left."""
        handle = self.handle(store)
        facts = self.facts(handle)
        gone, stays = await said(handle, "I like xylophones."), await said(handle, "Yes, I like tea.")
        lost = await facts.set("Ada", "likes", "xylophones", sources=[gone])
        made = await facts.set("Ada", "plays", "xylophone music", sources=[Source(lost.entries[0])])
        child = await facts.set("Ada", "owns", "mallets", sources="manual", depends_on=lost.entries)
        kept = await facts.set("Ada", "likes", "tea", sources=[gone, stays])
        await facts.set("Ada", "lives_in", "Paris", sources=[gone])
        (home,) = await facts.current("Ada", "lives_in")
        await facts.confirm(home, sources=[stays])
        await handle.purge(gone.id)
        wanted = {"mallets": "unsure", "tea": "holds", "Paris": "holds"}
        equal(states(await facts.current()), wanted, "what the next reading returns")
        equal([fact.id for fact in await facts.current("Ada", "likes")], list(kept.entries), "what has other support")
        sources = {source.item_id for fact in await facts.current() for source in fact.sources}
        equal(sources, {"", stays.id}, "the sources that are left")
        equal(await handle.get_many([*lost.entries, *made.entries]), [], "the entries that were purged")
        left = [item async for item in handle.scan(include_deleted=Capability.DELETE in store.capabilities)]
        that("xylophone" not in "".join(f"{item.content}{item.payload}" for item in left), "A purged word is left.")
        equal(await facts.why(child.entries[0]) is not None, True, "what depended on a purged fact")

    @needs(Capability.PURGE, Capability.TTL)
    async def test_facts_go_when_the_life_of_their_sources_is_over(self, store: Store) -> None:
        """A message that expires takes what was learned from it along, in the process that learned it, too."""
        now = store.clock()
        store.clock = lambda: now
        handle = self.handle(store)
        facts = self.facts(handle)
        short, stays = await said(handle, "I like xylophones.", ttl=100), await said(handle, "I like tea.")
        await facts.set("Ada", "likes", "xylophones", sources=short.id)
        await facts.set("Ada", "likes", "tea", sources=[short, stays])
        equal(objects(await facts.current()), ["xylophones", "tea"], "what is known before")
        now += 101
        equal(objects(await facts.current()), ["tea"], "what is known after")

    @needs(Capability.PURGE)
    async def test_nothing_is_known_once_everything_was_purged(self, store: Store) -> None:
        """An object that has read facts before shows none of a user of whom all is gone."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "I like xylophones.")
        await facts.set("Ada", "likes", "xylophones", sources=[item])
        equal(objects(await facts.current()), ["xylophones"], "what is known before")
        await handle.purge()
        equal(await facts.current(), [], "what is known after")
        equal(await facts.profile_lines(), [], "the lines for a prompt")

    @needs(Capability.PURGE)
    async def test_reconcile_says_what_it_took_back(self, store: Store) -> None:
        """The receipt lists the entries that were removed and the facts that do not hold any more."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "I like xylophones.")
        lost = await facts.set("Ada", "likes", "xylophones", sources=[item])
        child = await facts.set("Ada", "owns", "mallets", sources="manual", depends_on=lost.entries)
        await handle.purge(item.id)
        receipt = await facts.reconcile()
        equal(
            (receipt.removed, receipt.replaced, receipt.unsure), (lost.entries, lost.entries, child.entries), "receipt"
        )
        equal((await facts.reconcile()).removed, (), "what a second time finds")
        again = await facts.set("Ada", "likes", "chimes", sources="manual")
        that(again.entries != lost.entries, "The id of an entry that was purged was given again.")

    @needs(Capability.DELETE)
    async def test_deleted_sources_take_facts_back_until_they_are_restored(self, store: Store) -> None:
        """Deleting an item can be undone, so what it supports is only taken back."""
        handle = self.handle(store)
        facts, item = self.facts(handle), await said(handle, "I like tea.")
        await facts.set("Ada", "likes", "tea", sources=[item])
        await handle.delete(item.id)
        equal(await facts.current(), [], "what holds while the source is deleted")
        await handle.restore(item.id)
        await facts.reconcile()
        equal(objects(await facts.current()), ["tea"], "what holds after the source was restored")
