"""Compaction through the protocol alone: compacting, undoing, and several attempts at once."""

from __future__ import annotations

import asyncio

from memoranda.errors import SummaryError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory, SystemMemory, ToolMemory
from memoranda.store import EVERYTHING, Capability, Store
from memoranda_summary import SummaryConfig, compact
from memoranda_summary.compaction import expand, undo
from memoranda_testing.case import Cases, Reopen, moment, needs, required
from memoranda_testing.cases import case_names
from memoranda_testing.conformance import as_test
from memoranda_testing.expect import contents, equal, raises, same_item, that

# With prompts of its own a configuration needs no template to be installed.
CONFIG = SummaryConfig(
    message_threshold=6, keep_recent=2, templates=("brief",), prompts={"brief": "Sum up.", "outline": "Outline."}
)


class _Model:
    """Answers every prompt, counts the prompts, and leaves time for others to interfere."""

    def __init__(self, answer: str = "They talked.") -> None:
        self.answer = answer
        self.asked = 0

    async def summarize(self, prompt: str) -> str:
        self.asked += 1
        await asyncio.sleep(0.01)
        return self.answer


def _conversation(scope: MemoryMetadata, start: int = 0, same_time: bool = False) -> list[MemoryItem]:
    """Return a system item, three rounds with parallel tool calls, and a last question with its answer."""
    calls = [{"id": "a", "name": "look", "arguments": {}}, {"id": "b", "name": "look", "arguments": {}}]
    said: list[MemoryItem] = [
        SystemMemory(content=f"{start} rules", metadata=scope),
        HumanMemory(content=f"{start} first question", metadata=scope),
        AIMemory(content=f"{start} first answer", metadata=scope),
        HumanMemory(content=f"{start} second question", metadata=scope),
        AIMemory(content=f"{start} calls", tool_calls=calls, metadata=scope),
        ToolMemory(content=f"{start} result a", tool_call_id="a", metadata=scope),
        ToolMemory(content=f"{start} result b", tool_call_id="b", metadata=scope),
        HumanMemory(content=f"{start} last question", metadata=scope),
        AIMemory(content=f"{start} last answer", metadata=scope),
    ]
    for position, item in enumerate(said):
        item.created_at = moment(start if same_time else start + position)
    return said


async def _shown(store: Store, scope: MemoryMetadata) -> list[MemoryItem]:
    """Return what is not archived, oldest first."""
    return [item async for item in store.scan(metadata=scope, archived=False)]


class CompactionCases(Cases):
    """Summaries take the place of what they stand for, all or none, and give it back."""

    async def test_a_summary_takes_the_place_of_its_sources(self, store: Store) -> None:
        """Search and scan show the system item, the summary and the recent tail, in this order; count is unchanged."""
        scope = self.scope(session_id="s")
        said = _conversation(scope)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        wanted = ["0 rules", "They talked.", "0 last question", "0 last answer"]
        equal(contents(await _shown(store, scope)), wanted, "what is not archived after a compaction")
        found = await store.search(metadata=scope, limit=EVERYTHING, mode="substring")
        equal(sorted(contents(found)), sorted(wanted), "search after a compaction")
        equal(await store.count(metadata=scope), len(said) + 1, "count after a compaction")
        equal(len(result.archived), 6, "archived items")

    async def test_rounds_are_summarised_whole_or_not_at_all(self, store: Store) -> None:
        """A cut within a round keeps all of it: no window begins with a call whose question was summarised."""
        scope = self.scope(session_id="s")
        said = _conversation(scope)[:7]
        await store.add_many(said)
        for start in (100, 200):
            await compact(store, scope, CONFIG, _Model(), force=True)
            window = await store.window(metadata=scope)
            turns = [item for item in window if item.memory_type not in ("system", "summary")]
            equal(contents(turns), contents(said[-4:]), "what is kept where the last round has four items")
            said = _conversation(scope, start=start)[:7]
            await store.add_many(said)

    async def test_sources_stay_readable_and_name_their_summary(self, store: Store) -> None:
        """An archived item is read by its id, whole, with the id of its summary; the summary lists its sources."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        (summary,) = result.summaries
        same_item(await store.get(summary.id), summary, "the summary as it is stored", version=1)
        equal(summary.sources, [item.id for item in said[1:7]], "sources of the summary")
        for item in said[1:7]:
            item.archived_by = summary.id
            same_item(await store.get(item.id), item, "an archived item", version=2)

    async def test_expand_gives_the_originals(self, store: Store) -> None:
        """Expand returns what a summary stands for, oldest first."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        equal(
            contents(await expand(store, result.summary_id or "")), contents(said[1:7]), "what the summary stands for"
        )

    async def test_undo_brings_everything_back(self, store: Store) -> None:
        """After an undo everything is shown as it was, in its order, and the summary no longer is."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        restored = await undo(store, result.summary_id or "")
        equal(contents(restored), contents(said[1:7]), "what undo returned")
        shown = await _shown(store, scope)
        for found, wanted in zip(shown, said, strict=True):
            same_item(found, wanted, "an item after an undo")
        with raises(SummaryError, "a second undo"):
            await undo(store, result.summary_id or "", metadata=scope)

    async def test_what_comes_back_is_in_the_order_it_was_said(self, store: Store) -> None:
        """Clocks that go back change nothing in the order of expand and undo."""
        scope = self.scope()
        said = _conversation(scope)
        for position, item in enumerate(said):
            item.created_at = moment(50 - position)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        equal(contents(await expand(store, result.summary_id or "")), contents(said[1:7]), "expand")
        equal(contents(await undo(store, result.summary_id or "")), contents(said[1:7]), "undo")

    async def test_what_was_undone_can_be_compacted_again(self, store: Store) -> None:
        """A compaction after an undo is a new one."""
        scope = self.scope()
        await store.add_many(_conversation(scope))
        first = await compact(store, scope, CONFIG, _Model())
        await undo(store, first.summary_id or "")
        second = await compact(store, scope, CONFIG, _Model("Once more."))
        that(first.summary_id != second.summary_id, "A compaction after an undo has the id of the one that was undone.")
        equal([item.content for item in second.summaries], ["Once more."], "summaries after an undo")
        equal(len(await _shown(store, scope)), 4, "items shown after compacting again")

    async def test_running_again_changes_nothing(self, store: Store) -> None:
        """A second compaction finds nothing to do and does not ask the model, even when it is forced."""
        scope = self.scope()
        await store.add_many(_conversation(scope))
        await compact(store, scope, CONFIG, _Model())
        before, model = await _shown(store, scope), _Model()
        for force in (False, True):
            result = await compact(store, scope, CONFIG, model, force=force)
            that(not result.compacted, "A second compaction with nothing new to summarise stored something.")
        equal(model.asked, 0, "questions to the model")
        equal(await _shown(store, scope), before, "what is shown after a second compaction")

    async def test_compactions_at_once_compact_once(self, store: Store) -> None:
        """Of several compactions of one scope at the same time exactly one succeeds; the others do nothing."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        models = [_Model(f"By {number}.") for number in range(4)]
        results = await asyncio.gather(*(compact(store, scope, CONFIG, model) for model in models))
        equal(sum(result.compacted for result in results), 1, "compactions that succeeded")
        shown = await _shown(store, scope)
        equal(
            len([item for item in shown if isinstance(item, SummaryMemory)]), 1, "summaries after compactions at once"
        )
        equal(len(shown), 4, "items shown after compactions at once")

    async def test_a_source_that_changes_meanwhile_is_not_archived_unread(self, store: Store) -> None:
        """When a source is replaced while the model is asked, the new content is what is summarised."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        prompts: list[str] = []

        class Interfering:
            async def summarize(self, prompt: str) -> str:
                if not prompts:
                    await store.add(said[1].model_copy(update={"content": "corrected question"}))
                prompts.append(prompt)
                return "They talked."

        result = await compact(store, scope, CONFIG, Interfering())
        equal(len(prompts), 2, "questions to the model")
        that("corrected question" in prompts[1], "The second question to the model does not have the new content.")
        equal(len(result.archived), 6, "archived items")

    async def test_several_templates_share_their_sources_and_any_of_them_undoes_all(self, store: Store) -> None:
        """Each template has its own summary with its sources; expand and undo work from every one of them."""
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        config = SummaryConfig(
            message_threshold=6, keep_recent=2, templates=("brief", "outline"), prompts=dict(CONFIG.prompts)
        )
        result = await compact(store, scope, config, _Model())
        equal([item.template for item in result.summaries], ["brief", "outline"], "templates of the summaries")
        for summary in result.summaries:
            equal(contents(await expand(store, summary.id)), contents(said[1:7]), f"expand of {summary.template}")
        await undo(store, result.summaries[1].id)
        equal(contents(await _shown(store, scope)), contents(said), "what is shown after undoing the second summary")

    async def test_a_summary_of_a_summary_keeps_its_lineage(self, store: Store) -> None:
        """An earlier summary is archived with the rest; expand goes down to what was said, undo goes one step back."""
        scope = self.scope()
        early, late = _conversation(scope), _conversation(scope, start=100)
        await store.add_many(early)
        first = await compact(store, scope, CONFIG, _Model("First."))
        await store.add_many(late)
        second = await compact(store, scope, CONFIG, _Model("Second."))
        shown = ["0 rules", "100 rules", "Second.", "100 last question", "100 last answer"]
        equal(contents(await _shown(store, scope)), shown, "what is shown after two compactions")
        direct = await expand(store, second.summary_id or "", deep=False)
        that(first.summary_id in [item.id for item in direct], "The first summary is no source of the second.")
        said = [item.content for item in (*early, *late[:7]) if item.memory_type != "system"]
        equal(contents(await expand(store, second.summary_id or "")), said, "what both summaries stand for")
        await undo(store, second.summary_id or "")
        shown = ["0 rules", "First.", "0 last question", "0 last answer", *contents(late)]
        equal(contents(await _shown(store, scope)), shown, "what is shown after undoing the second compaction")

    async def test_a_summary_comes_before_the_tail_even_at_the_same_time(self, store: Store) -> None:
        """Where all items have the same time, the summary still stands before those that are kept."""
        scope = self.scope()
        await store.add_many(_conversation(scope, start=5, same_time=True))
        await compact(store, scope, CONFIG, _Model())
        shown = [item for item in await _shown(store, scope) if item.memory_type != "system"]
        equal(contents(shown), ["They talked.", "5 last question", "5 last answer"], "what is shown of equal time")

    async def test_a_model_that_fails_changes_nothing(self, store: Store) -> None:
        """An empty answer is an error, and everything is as it was."""
        scope = self.scope()
        await store.add_many(_conversation(scope))
        before = await _shown(store, scope)
        with raises(SummaryError, "compact with an empty answer"):
            await compact(store, scope, CONFIG, _Model(" "))
        equal(await _shown(store, scope), before, "what is shown after a failure")

    async def test_a_scoped_handle_compacts_its_scope_alone(self, store: Store) -> None:
        """Through a handle only its scope is summarised, read and undone; the summary belongs to it."""
        mine, theirs = self.scope(session_id="s"), self.scope(session_id="s")
        await store.add_many([*_conversation(mine), *_conversation(theirs)])
        before = await _shown(store, theirs)
        handle, other = (store.scoped(user_id=str(scope.user_id)) for scope in (mine, theirs))
        result = await compact(handle, None, CONFIG, _Model())
        (summary,) = result.summaries
        equal(summary.metadata, mine, "metadata of the summary")
        equal(len(await _shown(store, mine)), 4, "items shown in the scope")
        equal(await _shown(store, theirs), before, "what is shown of another user")
        with raises(SummaryError, "expand through another user's handle"):
            await expand(other, summary.id)
        with raises(SummaryError, "undo through another user's handle"):
            await undo(other, summary.id)
        await undo(handle, summary.id)
        equal(len(await _shown(store, mine)), 9, "items shown after an undo")

    @needs(Capability.PERSISTENT)
    async def test_a_compaction_is_there_after_opening_again(self, store: Store, reopen: Reopen | None) -> None:
        """A new store on the same data shows the summary and can undo it."""
        reopen = required(reopen)
        scope = self.scope()
        said = _conversation(scope)
        await store.add_many(said)
        result = await compact(store, scope, CONFIG, _Model())
        await store.close()
        async with await reopen() as again:
            equal(len(await _shown(again, scope)), 4, "items shown after opening again")
            await undo(again, result.summary_id or "")
            equal(contents(await _shown(again, scope)), contents(said), "what is shown after the undo")
            await self.clean(again)


class CompactionConformance(CompactionCases):
    """Test compaction on the store of a fixture ``store``, which a fixture ``reopen`` opens again."""


for _name in case_names(CompactionCases):
    setattr(CompactionConformance, _name, as_test(getattr(CompactionCases, _name)))
