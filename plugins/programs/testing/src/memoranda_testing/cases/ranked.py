"""Ranked search: by words, by meaning, and by both."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.store import Capability, InMemoryStore, RankedItem, SearchMode, Store
from memoranda.store.backend import Filter, best_of
from memoranda.store.ranked import best_of_all
from memoranda_testing.case import Cases, moment, needs, note
from memoranda_testing.expect import contents, equal, that
from memoranda_testing.programs import Calls, HistoryCases, Program, item, played

SENTENCES = (
    "the cat sleeps on the warm radiator",
    "quarterly revenue rose in the northern region",
    "a bicycle needs new brake pads before winter",
    "the recipe asks for saffron and two lemons",
    "the telescope showed the rings of saturn",
)

NEEDLE_INSIDE = ". ".join((*SENTENCES[:4] * 10, *SENTENCES[4:] * 10, *SENTENCES[:4] * 10))
"""A long text that speaks of something else in its middle."""


def modes_of(store: Store) -> list[SearchMode]:
    """Return the modes of ranked search that a store declares."""
    modes: list[SearchMode] = ["text", "semantic", "hybrid"]
    return [mode for mode in modes if Capability(mode) in store.capabilities]


class RankingCases(Cases):
    """What every mode of ranked search has in common."""

    async def _sentences(self, store: Store, metadata: MemoryMetadata) -> None:
        await store.add_many([note(text, metadata, second) for second, text in enumerate(SENTENCES)])

    async def _ranks(self, store: Store, mode: SearchMode) -> None:
        """Check order, scores, filters, limits and removal for one mode."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        await self._sentences(store, mine)
        await self._sentences(store, theirs)
        for text in SENTENCES:
            ranked = await store.search_ranked(query=text, metadata=mine, mode=mode)
            that(ranked, f"No item was ranked for its own content in mode {mode!r}.")
            equal(ranked[0].item.content, text, f"the best item for its own content in mode {mode!r}")
            that(ranked[0].parts, "A ranked item does not say what its score is made of.")
            that(ranked[0].terms or mode != "text", "A ranked item does not say which words of the query were found.")
            scores = [found.score for found in ranked]
            equal(scores, sorted(scores, reverse=True), "scores, best first")
            equal([score for score in scores if not 0 <= score <= 1], [], "scores below 0 or above 1")
            for found in ranked:
                equal(found.item.metadata, mine, "whose items were ranked")
            items = await store.search(query=text, metadata=mine, mode=mode)
            equal(contents(items), contents(found.item for found in ranked), "search and search_ranked")
        query = SENTENCES[2]
        equal(len(await store.search_ranked(query=query, metadata=mine, mode=mode, limit=1)), 1, "number with limit=1")
        equal(await store.search_ranked(query=query, metadata=mine, mode=mode, limit=0), [], "result with limit=0")
        others = await store.search(query=query, metadata=mine, mode=mode, memory_type="other")
        equal(others, [], "result of another type")
        others = await store.search(query=query, metadata=mine, mode=mode, status=MemoryStatus.DRAFT)
        equal(others, [], "result of another status")
        await store.clear(metadata=mine)
        equal(await store.search(query=query, metadata=mine, mode=mode), [], "result after clearing")
        equal(
            contents(await store.search(query=query, metadata=theirs, mode=mode, limit=1)),
            [query],
            "another user's result",
        )

    async def test_every_mode_ranks_the_best_first(self, store: Store) -> None:
        """Items come best first, within the filters, up to the limit, and not after they were removed."""
        for mode in modes_of(store):
            await self._ranks(store, mode)

    @needs(Capability.SEMANTIC)
    async def test_an_item_without_text_has_no_meaning(self, store: Store) -> None:
        """Content that is empty or whitespace is stored and listed, and is not found by meaning."""
        scope = self.scope()
        blank = [note(content, scope, second) for second, content in enumerate(("", "  ", "\n\t", "\u2003\u3000"))]
        text, emptied = note(SENTENCES[0], scope, 10), note(SENTENCES[1], scope, 11)
        await store.add(blank[0])
        await store.add_many([*blank[1:], text, emptied])
        await store.add(note("", scope, 11, id=emptied.id))
        found = await store.search(query=SENTENCES[1], metadata=scope, mode="semantic", limit=100)
        equal(contents(found), [SENTENCES[0]], "what is found by meaning")
        equal(await store.count(metadata=scope), 6, "number of items")
        await store.add(note(SENTENCES[1], scope, 11, id=emptied.id))
        found = await store.search(query=SENTENCES[1], metadata=scope, mode="semantic", limit=1)
        equal([item.id for item in found], [emptied.id], "what is found by meaning once it has text again")

    @needs(Capability.SEMANTIC)
    async def test_every_item_of_a_large_batch_is_found_by_its_meaning(self, store: Store) -> None:
        """An item has the same score whether it was stored alone or anywhere in a batch of hundreds."""
        together, apart = self.scope(), self.scope()
        texts = [f"milk {number}" for number in range(1_100)]
        await store.add_many([note(text, together) for text in texts])
        chosen = [texts[number] for number in (0, 99, 100, 499, 500, 999, 1_000, 1_099)]
        for text in chosen:
            await store.add(note(text, apart))
        asked: dict[str, Any] = {"query": "milk", "mode": "semantic", "limit": 2_000}
        alone = {each.item.content: each.score for each in await store.search_ranked(**asked, metadata=apart)}
        batch = {each.item.content: each.score for each in await store.search_ranked(**asked, metadata=together)}
        for text in chosen:
            one, other = (round(scores.get(text, -1.0), 5) for scores in (alone, batch))
            equal(other, one, f"the score of {text!r} from a batch")

    async def test_long_texts_are_ranked_to_their_ends(self, store: Store) -> None:
        """The last word of a long query counts, and the last word of a long content is found."""
        scope = self.scope()
        filler = " ".join(f"filler{number}" for number in range(3_000))
        items = [note("the telescope", scope, 1), note("a bicycle", scope, 2), note(f"{filler} saffron", scope, 3)]
        await store.add_many(items)
        for query, wanted in (
            ("paint and brushes " * 300 + "telescope", "the telescope"),
            ("saffron", f"{filler} saffron"),
        ):
            found = contents(await store.search(query=query, metadata=scope, mode="text"))
            that(wanted in found, f"The query that ends with {query[-9:]!r} does not find {wanted[-14:]!r}.")

    @needs(Capability.SEMANTIC)
    async def test_a_long_item_is_found_by_the_meaning_of_a_passage(self, store: Store) -> None:
        """What it says in its middle finds it, is named, and is gone with the item or its content; other items stay."""
        mine, theirs = self.scope(), self.scope()
        long, other, short = note(NEEDLE_INSIDE, mine), note(NEEDLE_INSIDE, theirs), note("saturn and lemons", mine, 1)
        await store.add(long)
        await store.add_many([other, short])
        for mode in ("semantic", "hybrid") if Capability.HYBRID in store.capabilities else ("semantic",):
            found = await self._first(store, mine, mode)
            equal(found.item.id, long.id, f"the best item in mode {mode!r}")
            that("telescope" in found.passage, f"The passage that was found in mode {mode!r} is not the one it names.")
            that(len(found.passage) < len(NEEDLE_INSIDE) / 4, "The passage is most of the item.")
        await store.add(note(SENTENCES[1] + NEEDLE_INSIDE.replace(SENTENCES[4], SENTENCES[1]), mine, id=long.id))
        equal((await self._first(store, mine, "semantic")).item.id, short.id, "the best item once the passage is gone")
        await store.add(note(SENTENCES[1], mine, id=long.id))
        equal((await self._first(store, mine, "semantic")).item.id, short.id, "the best item once it is short")
        many = [long, *(note(NEEDLE_INSIDE, mine, number) for number in range(20))]
        await store.add_many(many)
        await store.add_many([note(SENTENCES[1], mine, number, id=each.id) for number, each in enumerate(many)])
        equal((await self._first(store, mine, "semantic")).item.id, short.id, "the best item once all are short")
        await store.add(long)
        equal((await self._first(store, mine, "semantic")).item.id, long.id, "the best item once it is back")
        await store.clear(metadata=mine)
        equal(await store.search(query=SENTENCES[4], metadata=mine, mode="semantic"), [], "what is left")
        equal((await self._first(store, theirs, "semantic")).item.id, other.id, "what the other user finds")
        if Capability.PURGE in store.capabilities:
            await store.purge(metadata=theirs)
            equal(await store.search(query=SENTENCES[4], metadata=theirs, mode="semantic"), [], "what is left of all")

    @needs(Capability.SEMANTIC)
    async def test_whom_somebody_calls_by_name_is_no_part_of_a_meaning(self, store: Store) -> None:
        """Where no names are stored, those by which people are called are left out of a query, in their scope alone."""
        mine, theirs = self.scope(), self.scope()
        for scope, first in ((mine, "Thanks, Zenobia! See you."), (theirs, "See you at the Zenobia.")):
            await store.add_many([note(text, scope, second) for second, text in enumerate((first, *SENTENCES))])

        async def scores(query: str, scope: MemoryMetadata) -> list[tuple[str, float]]:
            ranked = await store.search_ranked(query=query, metadata=scope, mode="semantic")
            return [(found.item.content, round(found.score, 5)) for found in ranked]

        named, plain = "Which telescope did Zenobia's cat buy?", "Which telescope did cat buy?"
        equal(await scores(named, mine), await scores(plain, mine), "the ranking with the name of the person addressed")
        that(await scores(named, theirs) != await scores(plain, theirs), "A name that addresses no one was left out.")

    async def _first(self, store: Store, metadata: MemoryMetadata, mode: SearchMode) -> RankedItem:
        (found,) = await store.search_ranked(query=SENTENCES[4], metadata=metadata, mode=mode, limit=1)
        return found

    async def test_archived_items_are_recalled(self, store: Store) -> None:
        """Compaction hides an item from windows and searches; recall still finds it."""
        mine = self.scope(session_id="s")
        text, query = "My dog is called Bobdog", "Bobdog"
        await store.add_many([note(text, mine, archived_by="summary"), note("Noted", mine, 1)])
        handle = store.scoped(user_id=str(mine.user_id))
        equal(contents(await handle.recall("What is my dog called?"))[:1], [text], "recalled after compaction")
        for mode in modes_of(store):
            for archived, expected in ((False, []), (True, [text]), (None, [text])):
                found = await handle.search(query=query, mode=mode, archived=archived, min_score=0.2)
                equal(contents(found)[:1], expected, f"found in mode {mode!r} with archived={archived}")

    async def test_shared_memories_follow_what_is_stored(self, store: Store) -> None:
        """They are what is stored now, and whoever asks for memories of their own can change those alone."""
        mine, question = self.scope(session_id="s"), "Where does my sister Miriam live?"
        handle = store.scoped(user_id=str(mine.user_id))
        said = note("My sister Miriam lives in Lisbon", mine)
        for text in (said.content, "My sister Miriam lives in Porto"):
            await store.add(said.model_copy(update={"content": text}))
            (await handle.recall(question))[0].content = "My sister Miriam lives nowhere"
            equal(contents(await handle.recall(question, shared=True)), [text], "shared")
        await handle.clear()
        equal(await handle.recall(question, shared=True), [], "shared after clear()")

    async def test_scores_are_on_one_scale(self, store: Store) -> None:
        """They run from 0 to 1, an item's own content scores high, and min_score leaves out what is below."""
        mine = self.scope(session_id="s")
        await self._sentences(store, mine)
        for mode in modes_of(store):
            ranked = await store.search_ranked(query=SENTENCES[4], mode=mode, metadata=mine)
            that(ranked[0].score > 0.9, f"An item scores low for its own content in mode {mode!r}.")
            floor: dict[str, Any] = {"mode": mode, "metadata": mine, "min_score": ranked[0].score}
            best = await store.search_ranked(query=SENTENCES[4], **floor)
            equal(contents(found.item for found in best), [SENTENCES[4]], f"the best alone in mode {mode!r}")
            equal(contents(await store.search(query=SENTENCES[4], **floor)), [SENTENCES[4]], "the same")

    async def test_what_others_store_does_not_change_a_ranking(self, store: Store) -> None:
        """In every mode, items, order and scores stay while others' memories of the same sense come and go."""
        for mode in (*modes_of(store), None):
            await self._stays(store, mode)

    async def _stays(self, store: Store, mode: SearchMode | None) -> None:
        """Ask within every kind of scope, with neighbours that lie outside of all of them but in the same user's."""
        user, own = self.user(), uuid.uuid4().hex
        mine = MemoryMetadata(user_id=user, session_id=own, task_id=own, agent_id=own, extra={"team": own})
        theirs = MemoryMetadata(user_id=user, session_id="s", task_id="t", agent_id="a", extra={"team": "other"})
        await self._sentences(store, mine)
        scopes = [
            MemoryMetadata(user_id=user, session_id=own),
            MemoryMetadata(session_id=own),
            MemoryMetadata(task_id=own),
            MemoryMetadata(agent_id=own),
            MemoryMetadata(user_id=user, extra={"team": own}),
        ]

        async def rankings() -> list[list[tuple[str, float]]]:
            found = []
            for scope in scopes:
                ranked = await store.search_ranked(query="saffron for the telescope", metadata=scope, mode=mode)
                found.append([(each.item.content, round(each.score, 6)) for each in ranked])
            return found

        before = await rankings()
        that(all(before), f"Nothing was ranked in mode {mode!r}.")
        await store.add_many([note("saffron telescope saffron", theirs, second) for second in range(60)])
        equal(await rankings(), before, f"rankings in mode {mode!r} after a neighbour's adds")
        await store.clear(metadata=MemoryMetadata(user_id=user, session_id="s"))
        equal(await rankings(), before, f"rankings in mode {mode!r} after a neighbour's items were cleared")

    async def test_several_scopes_are_each_ranked_by_itself(self, store: Store) -> None:
        """An engine that ranks scopes together gives the best of all, with the scores that they have alone."""
        users = [self.user() for _ in range(3)]
        for number, user in enumerate(users):
            texts = [*SENTENCES[number:], f"saffron for {number}", *["a telescope with saffron"] * number]
            placed = [MemoryMetadata(user_id=user, session_id=f"{user} {at % 2}") for at in range(len(texts))]
            await store.add_many([note(text, placed[at], at) for at, text in enumerate(texts)])
        scopes = [Filter(metadata=MemoryMetadata(user_id=user), archived=None) for user in users]
        for mode, limit in itertools.product(modes_of(store), (2, 20)):
            query = best_of("saffron for the telescope", scopes[0], limit, mode)
            each = [await store.engine.read(query._replace(wanted=scope)) for scope in scopes]
            if store.engine.ranks_together:
                found = await store.engine.read(query._replace(beside=tuple(scopes[1:])))
                what = f"the best {limit} of three scopes in mode {mode!r}"
                equal(_rounded(found), _rounded(best_of_all(each, limit)), what)


def _rounded(ranked: Sequence[RankedItem]) -> list[tuple[str, float, float, tuple[str, ...]]]:
    return [(each.item.id, round(each.score, 6), round(each.evidence or 0.0, 6), each.missing) for each in ranked]


class TextRankingCases(HistoryCases):
    """Ranking by words."""

    @played
    def test_queries_are_never_syntax(self, store: Calls) -> Program:
        """Operators of full-text engines, quotes and signs are words or nothing, never an error."""
        yield store.add(item("saffron and two lemons"))
        signs = ('"', "'", "(", ":", "-", "%", "\\", '"saffron', "saffron AND", "NOT saffron", "NEAR(a b", "a* ^b")
        words = ('saffron"', "saffron*", "(saffron)", "saffron:", "-saffron", "saffron' OR '1'='1", "{saffron}")
        yield from (store.search_ranked(query=query, mode="text") for query in (*signs, *words))

    async def test_few_that_match_are_found_behind_many_that_do_not(self, store: Store) -> None:
        """In every mode, filters choose before the limit does, however many others answer a query better."""
        scope = self.scope(session_id="s")
        few = scope.model_copy(update={"extra": {"k": 1}})
        items = [note(f"green tea {number}", scope, 100 + number) for number in range(1_300)]
        items += [note(f"a green bridge {number}", few, number, memory_type="fact") for number in range(3)]
        await store.add_many(items)
        filters: list[dict[str, Any]] = [{"where": {"k": 1}}, {"memory_type": "fact"}, {"until": moment(50)}]
        filters.append({"memory_type": ["rule", "fact"]})
        for mode, asked in itertools.product(modes_of(store), filters):
            found = await store.search(query="green tea", metadata=scope, mode=mode, limit=3, **asked)
            wanted = [item.content for item in items[1_300:]]
            equal(sorted(contents(found)), wanted, f"what mode {mode!r} finds with {asked!r}")

    async def test_a_large_scope_is_ranked_as_in_memory(self, store: Store) -> None:
        """Items, order and scores are those of the in-memory store, also where very many items are equal.

        A date, a speaker, a neighbour or the letters of a word find an item among more than are ranked as one.
        """
        user = self.user()
        stack = haystack(user, self._size)
        reference = InMemoryStore()
        for each in (store, reference):
            await _add(each, stack)
        for query in (*NEEDLES, "saffron in the rain", "rain in the garden", "orchard", "ـــ xylophone"):
            first, second = [await _ranking(each, user, query) for each in (reference, store)]
            equal(second, first, f"the ranking for {query!r}")
            best, needle = [content for content, _ in second[:3]], NEEDLES.get(query)
            that(needle in (None, *best), f"{query!r} did not find {needle!r} among {len(stack)} items.")

    @property
    def _size(self) -> int:
        if not self.thorough:
            self.unchecked("a scope of 100,000 items: see thorough")
        return 100_000 if self.thorough else 3_000


NEEDLES = {
    "What was noted on 7 March 2019?": "nothing worth telling",
    "Zenobia": "mornings suit me best",
    "Which instrument did the tutor bring?": "A theorbo, of course.",
    "Geschosswohnungen": "eine Dachgeschosswohnung",
    "Übersetzungen": "das Übersetzungsbüro um die Ecke",
    "saffron": "the recipe asks for saffron and two lemons",
}
"""Queries, and what they should find in a :func:`haystack`."""


def haystack(user: str, size: int) -> list[MemoryItem]:
    """Return more items than a ranking reads as a whole, with the needles far apart in them."""
    talk = [f"turn {number} of the usual talk about rain and the garden" for number in range(size)]
    talk[200], talk[201] = "Which instrument did the tutor bring?", NEEDLES["Which instrument did the tutor bring?"]
    talk[350], talk[500], talk[700] = NEEDLES["Übersetzungen"], NEEDLES["Geschosswohnungen"], NEEDLES["saffron"]
    # Stemming would leave nothing of these.
    talk[60], talk[61] = "ـــ", "ηκε"
    # So far apart that what is read around one ends just before what is read around the other.
    talk[810], talk[823] = "an orchard", "an orchard on the hill behind the mill, with all its bees"
    first = datetime(2024, 3, 1, tzinfo=UTC)
    items = [
        note(
            text,
            MemoryMetadata(user_id=user, session_id=f"{user}-{number // 50}"),
            created_at=(first + timedelta(minutes=number)).isoformat(),
        )
        for number, text in enumerate(talk)
    ]
    alone = MemoryMetadata(user_id=user, session_id=f"{user}-alone")
    items[0] = note(NEEDLES["Zenobia"], alone, name="Zenobia")
    # The oldest was added last.
    items.append(note(NEEDLES["What was noted on 7 March 2019?"], alone, created_at="2019-03-07T10:00:00+00:00"))
    return items


async def _add(store: Store, items: list[MemoryItem]) -> None:
    # In parts: there are engines that take only so many at once.
    for start in range(0, len(items), 50_000):
        await store.add_many(items[start : start + 50_000])


async def _ranking(store: Store, user: str, query: str) -> list[tuple[str, float]]:
    ranked = await store.search_ranked(query=query, metadata=MemoryMetadata(user_id=user), mode="text", limit=10)
    return [(found.item.content, round(found.score, 6)) for found in ranked]
