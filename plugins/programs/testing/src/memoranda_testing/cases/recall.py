"""Recall, the floor of relevance, and searches among archived items and several types."""

from __future__ import annotations

import uuid

from memoranda.errors import InputError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory
from memoranda.store import Capability, SearchMode, Store
from memoranda_testing.case import Cases, moment
from memoranda_testing.expect import contents, each_raises, equal, that

SAID = "My dog is called Bobdog"
QUESTION = "What is my dog called?"


def modes_of(store: Store) -> list[SearchMode]:
    """Return the modes of ranked search that a store declares."""
    modes: list[SearchMode] = ["text", "semantic", "hybrid"]
    return [mode for mode in modes if Capability(mode) in store.capabilities]


class RecallCases(Cases):
    """A question gets the memories that answer it, and nothing else."""

    def _user(self, session: str) -> MemoryMetadata:
        return self.scope(session_id=session)

    async def _tell(self, store: Store, metadata: MemoryMetadata, *items: MemoryItem) -> None:
        for second, item in enumerate(items):
            changed = item.model_copy(update={"metadata": metadata, "created_at": moment(second)})
            await store.add(changed)

    async def test_a_handle_recalls_from_every_session_of_its_user(self, store: Store) -> None:
        """What was said in another session is recalled; what another user said never is."""
        monday = self._user("monday")
        await self._tell(store, monday, HumanMemory(content=SAID), AIMemory(content="A fine name"))
        await self._tell(store, self._user("monday"), HumanMemory(content="My dog is called Rex"))
        tuesday = store.scoped(user_id=str(monday.user_id), session_id="tuesday")
        that(SAID in contents(await tuesday.recall(QUESTION)), "Another session of the user was not recalled.")
        equal(contents(await tuesday.recall(QUESTION, where={"session_id": "tuesday"})), [], "recalled of one session")
        stranger = store.scoped(user_id=f"user-{uuid.uuid4().hex}", session_id="monday")
        equal(await stranger.recall(QUESTION), [], "recalled by another user of the same session")
        alone = store.scoped(session_id=uuid.uuid4().hex)
        equal(await alone.recall(QUESTION), [], "recalled by a handle that names no user")

    async def test_archived_items_are_recalled(self, store: Store) -> None:
        """Compaction hides an item from windows and searches; recall still finds it."""
        mine = self._user("s")
        await self._tell(store, mine, HumanMemory(content=SAID, archived_by="summary"), AIMemory(content="Noted"))
        handle = store.scoped(user_id=str(mine.user_id))
        equal(contents(await handle.recall(QUESTION))[:1], [SAID], "recalled after compaction")
        found = await handle.search(query="Bobdog", mode="substring")
        equal(contents(found), [], "found by a search")
        found = await handle.search(query="Bobdog", mode="substring", archived=True)
        equal(contents(found), [SAID], "found with archived=True")
        for mode in modes_of(store):
            for archived, expected in ((False, []), (True, [SAID]), (None, [SAID])):
                found = await handle.search(query="Bobdog", mode=mode, archived=archived, min_score=0.2)
                equal(contents(found)[:1], expected, f"found in mode {mode!r} with archived={archived}")

    async def test_recall_leaves_out_what_is_no_memory(self, store: Store) -> None:
        """System items, the question itself and what the window shows are not recalled."""
        mine = self._user("s")
        await self._tell(
            store,
            mine,
            SystemMemory(content="Always ask what the dog is called"),
            HumanMemory(content=SAID),
            AIMemory(content="The dog is called Bobdog, then"),
            HumanMemory(content=QUESTION),
        )
        handle = store.scoped(user_id=str(mine.user_id), session_id="s")
        found = contents(await handle.recall(QUESTION))
        equal(sorted(found), sorted([SAID, "The dog is called Bobdog, then"]), "recalled")
        window = [item for item in await handle.window() if item.content == SAID]
        equal(contents(await handle.recall(QUESTION, window=window)), ["The dog is called Bobdog, then"], "beside it")
        equal(len(await handle.recall(QUESTION, limit=1, window=window)), 1, "number with limit=1 beside a window")
        equal(await handle.recall(QUESTION, limit=0), [], "with limit=0")
        equal(await handle.recall("  "), [], "of a blank question")

    async def test_an_empty_question_recalls_what_is_worth_knowing(self, store: Store) -> None:
        """An empty query asks for what is worth knowing anyway: the most telling statements of people first."""
        mine = self._user("s")
        telling = "I moved to Porto with my sister Ana in March"
        said = (HumanMemory(content="ok"), HumanMemory(content=telling), HumanMemory(content="How warm is it?"))
        await self._tell(store, mine, *said)
        handle = store.scoped(user_id=str(mine.user_id))
        found = contents(await handle.recall(""))
        equal(found[:1], [telling], "the most telling")
        equal(sorted(found), sorted(item.content for item in said), "everything")
        equal(await handle.recall("", limit=0), [], "with limit=0")

    async def test_a_question_about_nothing_known_recalls_nothing(self, store: Store) -> None:
        """There is a floor of relevance."""
        mine = self._user("s")
        facts = ("refund_policy: 30 days", "I prefer a window seat on trains", "The report is due on Friday")
        await self._tell(store, mine, *(HumanMemory(content=text) for text in facts))
        handle = store.scoped(user_id=str(mine.user_id))
        for question in ("xylophone", "Qzvw brtn?"):
            equal(contents(await handle.recall(question)), [], f"recalled for {question!r}")
        equal(contents(await handle.recall("Which seat do I prefer?"))[:1], [facts[1]], "recalled")

    async def test_a_floor_of_zero_recalls_all_that_is_related(self, store: Store) -> None:
        """Without a floor of the caller's, what scores far below the best is left out; with 0, nothing related is."""
        mine = self._user("s")
        facts = ("the telescope on the roof showed the rings of saturn", "a telescope", "the roof", "two lemons")
        for number, text in enumerate(facts):
            session = mine.model_copy(update={"session_id": f"s{number}"})
            await self._tell(store, session, HumanMemory(content=text))
        handle = store.scoped(user_id=str(mine.user_id))
        question = "Which rings of saturn did the telescope on the roof show?"
        found = contents(await handle.recall(question))
        all_found = contents(await handle.recall(question, min_score=0))
        equal(found[:1], [facts[0]], "the best memory")
        that(set(facts[:3]) <= set(all_found), "Something related to the question was left out with min_score=0.")
        that(set(found) < set(all_found), "The floor of recall left nothing out.")
        equal(contents(await handle.recall(question, min_score=0, limit=2)), all_found[:2], "the first two of all")

    async def test_shared_memories_follow_what_is_stored(self, store: Store) -> None:
        """They are what is stored now, and whoever asks for memories of their own can change those alone."""
        mine = self._user("s")
        await self._tell(store, mine, HumanMemory(content="My sister Miriam lives in Lisbon"))
        handle, question = store.scoped(user_id=str(mine.user_id)), "Where does my sister Miriam live?"
        own = (await handle.recall(question))[0]
        own.content = "My sister Miriam lives nowhere"
        equal(contents(await handle.recall(question, shared=True)), ["My sister Miriam lives in Lisbon"], "shared")
        await self._tell(store, mine, own.model_copy(update={"content": "My sister Miriam lives in Porto"}))
        equal(contents(await handle.recall(question, shared=True)), ["My sister Miriam lives in Porto"], "replaced")
        await handle.clear()
        equal(await handle.recall(question, shared=True), [], "shared after clear()")

    async def test_a_verdict_says_how_far_memories_go(self, store: Store) -> None:
        """It comes with the memories and their scores, and counts what the window shows."""
        mine = self._user("s")
        facts = ("My sister Miriam lives in Lisbon", "I prefer a window seat on trains", "The report is due on Friday")
        await self._tell(store, mine, *(HumanMemory(content=text) for text in facts))
        handle = store.scoped(user_id=str(mine.user_id))
        known = await handle.recall("Where does my sister Miriam live?", verdict=True)
        equal(known.memories[0].item.content, facts[0], "the best memory")
        equal((known.verdict, known.unsupported), ("known", ()), "the verdict on what is known")
        scores = [found.score for found in known]
        equal(scores, sorted(scores, reverse=True), "the scores, best first")
        listed = await handle.recall("Where does my sister Miriam live?")
        equal([found.item.id for found in known], [item.id for item in listed], "the same memories as a list")
        near = await handle.recall("Where does my brother Xaver live?", verdict=True, min_score=0)
        that({"brother", "Xaver"} <= set(near.unsupported), "The words that nothing supports are not named.")
        that(near.verdict != "known", "What nothing supports counts as known.")
        unknown = await handle.recall("Qzvw brtn?", verdict=True)
        equal((len(unknown), unknown.verdict), (0, "unknown"), "the verdict on what is unknown")
        window = [item for item in await handle.search(limit=10) if item.content == facts[0]]
        shown = await handle.recall("Where does my sister Miriam live?", window=window, verdict=True)
        that(facts[0] not in [found.item.content for found in shown], "What the window shows was recalled.")
        equal(shown.verdict, "known", "the verdict where the window shows the answer")
        equal(len(await handle.recall("Where does my sister live?", limit=0, verdict=True)), 0, "with limit=0")
        blank = await handle.recall("  ", verdict=True)
        equal((blank.memories, blank.verdict), ((), "unknown"), "the verdict on a blank question")

    async def test_scores_are_on_one_scale(self, store: Store) -> None:
        """They run from 0 to 1, an item's own content scores high, and min_score leaves out what is below."""
        mine = self._user("s")
        facts = ("the telescope showed the rings of saturn", "a bicycle needs brake pads", "saffron and two lemons")
        await self._tell(store, mine, *(HumanMemory(content=text) for text in facts))
        handle = store.scoped(user_id=str(mine.user_id))
        for mode in modes_of(store):
            ranked = await handle.search_ranked(query=facts[0], mode=mode)
            that(all(0 <= found.score <= 1 for found in ranked), f"A score is not from 0 to 1 in mode {mode!r}.")
            that(ranked[0].score > 0.9, f"An item scores low for its own content in mode {mode!r}.")
            floor = ranked[0].score
            best = await handle.search_ranked(query=facts[0], mode=mode, min_score=floor)
            equal(contents(found.item for found in best), [facts[0]], f"at least {floor} in mode {mode!r}")
            equal(contents(await handle.search(query=facts[0], mode=mode, min_score=floor)), [facts[0]], "the same")
        await each_raises(
            InputError,
            "with a min_score that makes no sense",
            below=handle.search(query="x", mode="text", min_score=-0.1),
            above=handle.search_ranked(query="x", mode="text", min_score=1.5),
            recalled=handle.recall("x", min_score=2),
            unranked=handle.search(query="x", mode="substring", min_score=0.5),
        )
