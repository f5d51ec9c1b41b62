"""Stores, fences, guards and compactions that a third party could well write, each with one fault in what it trusts."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any

from stepwise import StepwiseStore

from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata, SummaryMemory
from memoranda.store import InMemoryStore, Observer, Order, Store, copy_item, dump_item, load_item
from memoranda.store.backend import AtLeast, Filter, Page, Write
from memoranda.trust import trust_of
from memoranda_facts import Facts
from memoranda_guard import Fence, Guard, QuarantinedMemory
from memoranda_guard import guard as guard_module
from trust_kit.cases import TrustCases


def without_trust(wanted: Filter) -> Filter:
    """Return a filter without its condition on trust."""
    return replace(wanted, further=tuple(each for each in wanted.further if not isinstance(each, AtLeast)))


# Stores


class Restamping(StepwiseStore):
    """Stamps every item once more before it is written."""

    def _stamped(self, item: MemoryItem) -> MemoryItem:
        return item

    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(self._stamped(item), within)

    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(adds=[self._stamped(item) for item in write.adds]))

    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        return await super()._update_many([self._stamped(item) for item in items], within)


class TrustFromContent(Restamping):
    """Believes who says that he is Ada."""

    def _stamped(self, item: MemoryItem) -> MemoryItem:
        if item.content.startswith("I am Ada"):
            item.__dict__["trust"] = "user"
        return super()._stamped(item)


class TrustFromExtra(Restamping):
    def _stamped(self, item: MemoryItem) -> MemoryItem:
        item.__dict__["trust"] = item.metadata.extra.get("trust", item.trust)
        return super()._stamped(item)


class HandlesForgotten(StepwiseStore):
    """Believes what an item says of itself, whatever the handle."""

    def scoped(self, *, trust: str | None = None, **scope: Any) -> Any:
        return super().scoped(**scope)


class TypesForgotten(Restamping):
    """Trusts what says nothing of itself as the user."""

    def _stamped(self, item: MemoryItem) -> MemoryItem:
        item.__dict__["trust"] = item.trust or "user"
        return super()._stamped(item)


class Raising(StepwiseStore):
    """Lets a new state of an item bring a trust of its own."""

    def _raise(self, given: Sequence[MemoryItem]) -> None:
        for item in given:
            stored = self._live.get(item.id)
            if stored is not None and item.trust is not None:
                raised = copy_item(stored.item)
                raised.__dict__["trust"] = item.trust
                self._put(raised)


class UpdateRaises(Raising):
    async def _update_many(self, items: Sequence[MemoryItem], within: MemoryMetadata | None) -> list[MemoryItem]:
        written = await super()._update_many(items, within)
        self._raise(items)
        return written


class ReplacingRaises(Raising):
    async def _add(self, item: MemoryItem, within: MemoryMetadata | None) -> None:
        await super()._add(item, within)
        self._raise([item])


class CopiesAreNew(StepwiseStore):
    """Takes what comes in a batch for its own."""

    async def _apply(self, write: Write) -> int:
        adds = [copy_item(item) for item in write.adds]
        for item in adds if len(adds) > 1 else ():
            item.__dict__["trust"] = "user"
        return await super()._apply(write.but(adds=adds))


class SearchIgnoresTrust(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        return await super()._search(without_trust(wanted), page)


class CountIgnoresTrust(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await super()._count(without_trust(wanted), include_deleted)


class TrustLostInReading(StepwiseStore):
    async def _search(self, wanted: Filter, page: Page) -> list[MemoryItem]:
        found = await super()._search(wanted, page)
        for item in found:
            item.__dict__["trust"] = None
        return found


class QuarantineCounted(StepwiseStore):
    async def _count(self, wanted: Filter, include_deleted: bool) -> int:
        return await super()._count(wanted, include_deleted=True)


class QuarantineScanned(StepwiseStore):
    async def _scan(self, wanted: Filter, include_deleted: bool, order: Order) -> AsyncGenerator[MemoryItem, None]:
        async for item in super()._scan(wanted, True, order):
            yield item


class QuarantineShown(StepwiseStore):
    """Stores what is hidden like anything else."""

    async def _apply(self, write: Write) -> int:
        return await super()._apply(write.but(hidden=frozenset()))


STORES: list[tuple[type[Store], str]] = [
    (TrustFromContent, "forged_roles_stay_fenced"),
    (TrustFromExtra, "laundered_items_gain_nothing"),
    (HandlesForgotten, "laundered_items_gain_nothing"),
    (HandlesForgotten, "what_an_mcp_client_writes_stays_fenced"),
    (TypesForgotten, "results_of_tools_stay_fenced"),
    (UpdateRaises, "laundered_items_gain_nothing"),
    (ReplacingRaises, "laundered_items_gain_nothing"),
    (CopiesAreNew, "laundered_items_gain_nothing"),
    (SearchIgnoresTrust, "what_is_delayed_stays_fenced"),
    (CountIgnoresTrust, "facts_of_tools_stay_fenced"),
    (TrustLostInReading, "forged_roles_stay_fenced"),
    (QuarantineCounted, "what_is_kept_apart_is_seen_by_nothing"),
    (QuarantineScanned, "what_is_kept_apart_is_seen_by_nothing"),
    (QuarantineShown, "what_is_kept_apart_is_seen_by_nothing"),
]
"""Wrong stores, each with the case that catches it."""


# Compaction and moving


class TaintLost(TrustCases):
    """Writes summaries as the agent's own words."""

    async def compact(self, handle: Store, model: Any) -> None:
        read = [item async for item in handle.scan(archived=False)]
        summary = SummaryMemory(content=await model.summarize(""), sources=[item.id for item in read])
        await handle.add(summary)
        await handle.update_many([item.model_copy(update={"archived_by": summary.id}) for item in read])


class TaintOfNamedSources(TrustCases):
    """Believes the model's answer on where it has its words from."""

    async def compact(self, handle: Store, model: Any) -> None:
        read = [item async for item in handle.scan(archived=False, order="added")]
        named = read[:1]
        summary = SummaryMemory(content=await model.summarize(""), sources=[named[0].id], trust=trust_of(named[0]))
        await handle.add(summary)
        await handle.update_many([item.model_copy(update={"archived_by": summary.id}) for item in read])


class TrustLostOnImport(TrustCases):
    async def move(self, store: Store, metadata: MemoryMetadata) -> Store:
        target = InMemoryStore()
        async for item in store.scan(metadata=metadata):
            fields = {name: value for name, value in dump_item(item).items() if name != "trust"}
            await target.add(load_item(fields))
        return target


class FactsOfAnyone(TrustCases):
    """Writes facts through a handle of its own."""

    def make_facts(self, handle: Any) -> Facts:
        return super().make_facts(handle.root.scoped(user_id=handle.scope.user_id))


# Fences


class _Fence(Fence):
    """A fence with a fault in what it makes of each fenced item."""

    def apply(self, items: Sequence[MemoryItem], **budget: Any) -> list[MemoryItem]:
        given = {item.id: item for item in items}
        shown = super().apply(items, **budget)
        return [item if item is given[item.id] else self.spoilt(item, given[item.id]) for item in shown]

    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        raise NotImplementedError


class _WithFence(TrustCases):
    wrong: type[Fence] = Fence

    def make_fence(self) -> Fence:
        return self.wrong()


def with_fence(fence: type[Fence]) -> type[TrustCases]:
    """Return the cases with another fence."""
    return type(fence.__name__, (_WithFence,), {"wrong": fence})


class NoFence(Fence):
    def apply(self, items: Sequence[MemoryItem], **budget: Any) -> list[MemoryItem]:
        return list(items)


class RolesKept(_Fence):
    """Fences the words, and lets them speak as the system."""

    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        return given.model_copy(update={"content": item.content, "payload": None})


class OneDelimiter(_Fence):
    """Has the same delimiter for all."""

    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        token = item.content.split()[1]
        return item.model_copy(update={"content": item.content.replace(token, "0" * 16)})


class OpenAtTheEnd(_Fence):
    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        return item.model_copy(update={"content": item.content.rpartition("\n[end")[0]})


class NamesKept(_Fence):
    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        return item.model_copy(update={"name": given.name})


class ToolsAlone(Fence):
    """Fences the results of tools, and nothing else."""

    def is_below(self, item: MemoryItem) -> bool:
        return item.memory_type == "tool" and super().is_below(item)


class EveryoneFenced(_Fence):
    """Leaves out what the user said."""

    def apply(self, items: Sequence[MemoryItem], **budget: Any) -> list[MemoryItem]:
        return [item for item in super().apply(items, **budget) if not isinstance(item, HumanMemory) or item.trust]

    def spoilt(self, item: MemoryItem, given: MemoryItem) -> MemoryItem:
        return item


class RepetitionsKept(Fence):
    def distinct(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        return list(items)


# Guards


class NoGuard(TrustCases):
    def make_guard(self) -> Observer:
        return Observer()


class TextAsItIs(TrustCases):
    """Compares texts without folding them."""

    def make_guard(self) -> Observer:
        class Plain(Guard):
            def before_add(self, item: MemoryItem) -> MemoryItem:
                folding = guard_module.folded, guard_module.joined_letters
                guard_module.folded, guard_module.joined_letters = str.lower, str  # type: ignore[assignment]
                try:
                    return super().before_add(item)
                finally:
                    guard_module.folded, guard_module.joined_letters = folding

        return Plain("standard")


class ItemsAlone(TrustCases):
    """Looks at each item by itself."""

    def make_guard(self) -> Observer:
        class Forgetful(Guard):
            def before_add(self, item: MemoryItem) -> MemoryItem:
                return Guard("standard").before_add(item)

        return Forgetful("standard")


class ContentKept(TrustCases):
    """Keeps apart what it still shows."""

    def make_guard(self) -> Observer:
        class Showing(Guard):
            def before_add(self, item: MemoryItem) -> MemoryItem:
                kept = super().before_add(item)
                if isinstance(kept, QuarantinedMemory):
                    kept = kept.model_copy(update={"content": item.content, "archived_by": None})
                return kept

        return Showing("standard")


class AllKeptApart(TrustCases):
    def make_guard(self) -> Observer:
        return Guard({"default": "quarantine"})


CASES: list[tuple[type[TrustCases], str]] = [
    (TaintLost, "results_of_tools_stay_fenced"),
    (TaintOfNamedSources, "forged_tags_stay_fenced"),
    (TrustLostOnImport, "laundered_items_gain_nothing"),
    (FactsOfAnyone, "a_tool_overwrites_no_fact"),
    (with_fence(NoFence), "results_of_tools_stay_fenced"),
    (with_fence(RolesKept), "forged_roles_stay_fenced"),
    (with_fence(OneDelimiter), "a_fence_is_drawn_anew_for_each_call"),
    (with_fence(OneDelimiter), "forged_tags_stay_fenced"),
    (with_fence(OpenAtTheEnd), "disguised_letters_stay_fenced"),
    (with_fence(NamesKept), "forged_roles_stay_fenced"),
    (with_fence(ToolsAlone), "forged_roles_stay_fenced"),
    (with_fence(EveryoneFenced), "results_of_tools_stay_fenced"),
    (with_fence(RepetitionsKept), "what_is_repeated_counts_once"),
    (NoGuard, "what_is_kept_apart_is_seen_by_nothing"),
    (TextAsItIs, "what_is_kept_apart_is_seen_by_nothing"),
    (ItemsAlone, "what_is_kept_apart_is_seen_by_nothing"),
    (ContentKept, "what_is_kept_apart_is_seen_by_nothing"),
    (AllKeptApart, "what_no_policy_catches_is_stored"),
]
"""Cases with a wrong part, each with the one that catches it."""
