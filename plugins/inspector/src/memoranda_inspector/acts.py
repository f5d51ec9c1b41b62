"""What can be done, each with a look at what it would do first, and a way back where there is one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, SummaryMemory, now_text
from memoranda.store import BaseStore, Capability, Erasing
from memoranda_inspector.pages import number_of
from memoranda_inspector.scopes import Owner
from memoranda_inspector.text import count, shown_name
from memoranda_summary import SummaryConfig, compact, expand, plan, undo

Form = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Preview:
    """What an act would do: a sentence, the items that it is about, and what has to be said to do it."""

    title: str
    sentence: str
    items: list[MemoryItem] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """What the form of the act sends along."""
    button: str = ""
    """Empty if there is nothing to do."""
    typed: str = ""
    """What has to be typed by hand, for what cannot be taken back."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an act did, and the act that takes it back."""

    sentence: str
    undo: str = ""
    values: dict[str, str] = field(default_factory=dict)
    receipt: dict[str, Any] | None = None


class Acts:
    """Everything that changes something, through the store's public methods and within the owner's bounds."""

    def __init__(
        self, store: BaseStore, summarizer: Any = None, templates: tuple[str, ...] = ("conversation",)
    ) -> None:
        self._store = store
        self._summarizer = summarizer
        self._templates = templates
        self.previews: dict[str, Callable[[Owner, Form], Awaitable[Preview]]] = {
            "delete": self._preview_delete,
            "restore": self._preview_restore,
            "undo": self._preview_undo,
            "compact": self._preview_compact,
            "forget": self._preview_forget,
        }
        self.doings: dict[str, Callable[[Owner, Form], Awaitable[Done]]] = {
            "delete": self._delete,
            "restore": self._restore,
            "undo": self._undo,
            "compact": self._compact,
            "forget": self._forget,
        }

    async def _preview_delete(self, owner: Owner, form: Form) -> Preview:
        item = await self._item(owner, form)
        if Capability.DELETE not in self._store.capabilities:
            return Preview("Delete", "This store keeps nothing that was deleted, so nothing is deleted here.", [item])
        together = "" if item.group is None else " Models are shown what belongs to its group only as a whole."
        return Preview(
            "Delete",
            f"One item is hidden from every search and every model. It can be restored.{together}",
            [item],
            {"item": owner.item_key(item.id)},
            "Delete it",
        )

    async def _delete(self, owner: Owner, form: Form) -> Done:
        key = form.get("item", "")
        if not await self._store.delete(owner.item_id(key), metadata=owner.metadata):
            raise InputError("There is no such item any more.", field="item")
        return Done("One item is deleted.", "restore", {"item": key})

    async def _preview_restore(self, owner: Owner, form: Form) -> Preview:
        key, item_id = _one_or_all(owner, form)
        hidden = [item for item in await self._hidden(owner.metadata) if item_id in (None, item.id)]
        if not hidden:
            return Preview("Restore", "Nothing is deleted here.")
        return Preview(
            "Restore", f"{count(len(hidden), 'item')} would be shown again.", hidden, {"item": key}, "Restore"
        )

    async def _restore(self, owner: Owner, form: Form) -> Done:
        key, item_id = _one_or_all(owner, form)
        number = await self._store.restore(item_id, metadata=owner.metadata)
        if number == 1 and key:
            return Done("One item is back.", "delete", {"item": key})
        return Done(f"Restored: {count(number, 'item')}.")

    async def _preview_undo(self, owner: Owner, form: Form) -> Preview:
        item = await self._item(owner, form)
        if not isinstance(item, SummaryMemory):
            raise InputError("Only a summary can be undone.", field="item")
        sources = await expand(self._store, item.id, metadata=owner.metadata, deep=False)
        sentence = (
            f"The summary goes, and {count(len(sources), 'item')} that it stands for would be shown again. "
            "The same summary cannot be brought back; compacting again asks the model anew."
        )
        return Preview("Undo a summary", sentence, [item, *sources], {"item": owner.item_key(item.id)}, "Undo it")

    async def _undo(self, owner: Owner, form: Form) -> Done:
        back = await undo(self._store, owner.item_id(form.get("item", "")), metadata=owner.metadata)
        return Done(f"The summary is gone; {count(len(back), 'item')} came back.")

    async def _preview_compact(self, owner: Owner, form: Form) -> Preview:
        config, keep = self._config(form)
        planned = await plan(self._store, owner.metadata, config, force=True)
        due = planned.trigger.reason or "no threshold is exceeded, so an agent would not do it yet"
        messages, tokens = planned.trigger.message_count, planned.trigger.estimated_tokens
        size = f"{count(messages, 'message')}, about {tokens:,} tokens: {due}."
        if not planned.older:
            return Preview("Compact", f"There is nothing to summarize. {size}")
        sentence = f"{count(len(planned.older), 'item')} would be archived, with a summary in their place. {size}"
        if self._summarizer is None:
            sentence += " No model was named when the inspector was started (--model), so this is all that can be done."
            return Preview("Compact", sentence, list(planned.older))
        return Preview("Compact", sentence, list(planned.older), {"keep": str(keep)}, "Ask the model and compact")

    async def _compact(self, owner: Owner, form: Form) -> Done:
        if self._summarizer is None:
            raise InputError("No model was named when the inspector was started.", field="model")
        config, _ = self._config(form)
        result = await compact(self._store, owner.metadata, config, self._summarizer, force=True)
        if result.summary_id is None:
            return Done("There was nothing to summarize.")
        made = count(len(result.summaries), "summary", "summaries")
        sentence = f"{count(len(result.archived), 'item')} archived, {made} made."
        return Done(sentence, "undo", {"item": owner.item_key(result.summary_id)})

    async def _preview_forget(self, owner: Owner, form: Form) -> Preview:
        user = _user_of(owner)
        found, deleted = await self._counted(owner.metadata)
        sentence = (
            f"{count(found, 'item')} and {deleted:,} deleted already are erased for good, in every session. "
            "There is no way back. What others' memories say about this user stays."
        )
        return Preview("Forget this user", sentence, [], {}, "Erase for good", shown_name(user))

    async def _forget(self, owner: Owner, form: Form) -> Done:
        user, store = _user_of(owner), self._store
        if form.get("typed", "") != shown_name(user):
            raise InputError("What was typed is not the user's id; nothing was erased.", field="typed")
        found, deleted = await self._counted(owner.metadata)
        purges = Capability.PURGE in store.capabilities
        removed = await (store.purge(metadata=owner.metadata) if purges else store.clear(metadata=owner.metadata))
        left = await self._traces(owner.metadata)
        pending = await store.erase() if isinstance(store, Erasing) else ""
        complete = not any(left.values()) and not pending
        receipt = {
            "user_id": user,
            "found": found,
            "deleted": deleted,
            "method": "purge" if purges else "clear",
            "removed": removed,
            "left": left,
            "pending": pending,
            "complete": complete,
            "at": now_text(),
        }
        verdict = "Nothing is left." if complete else pending or "Something is left: somebody may still be writing."
        return Done(f"{count(removed, 'item')} erased. {verdict}", receipt=receipt)

    def _config(self, form: Form) -> tuple[SummaryConfig, int]:
        keep = number_of(form, "keep", 4, 1000)
        # A template that is not installed works too, with a prompt of its own.
        prompts = {"notes": "Summarize what was said.\n{content}"} if "notes" in self._templates else {}
        return SummaryConfig(templates=self._templates, prompts=prompts, keep_recent=keep), keep

    async def _item(self, owner: Owner, form: Form) -> MemoryItem:
        item = await self._store.get(owner.item_id(form.get("item", "")), metadata=owner.metadata)
        if item is None:
            raise InputError("There is no such item any more.", field="item")
        return item

    async def _hidden(self, metadata: MemoryMetadata | None) -> list[MemoryItem]:
        if Capability.DELETE not in self._store.capabilities:
            return []
        # In this order, so that an item that is added meanwhile is not taken for a deleted one.
        found = {item.id: item async for item in self._store.scan(metadata=metadata, include_deleted=True)}
        async for item in self._store.scan(metadata=metadata):
            found.pop(item.id, None)
        return list(found.values())

    async def _counted(self, metadata: MemoryMetadata | None) -> tuple[int, int]:
        found = await self._store.count(metadata=metadata)
        hides = Capability.DELETE in self._store.capabilities
        return found, await self._store.count(metadata=metadata, include_deleted=True) - found if hides else 0

    async def _traces(self, metadata: MemoryMetadata | None) -> dict[str, int]:
        """Look for an owner by every way that leads to an item, and return how many each still finds."""
        found, deleted = await self._counted(metadata)
        left = {
            "counted": found,
            "deleted": deleted,
            "scanned": sum([1 async for _ in self._store.scan(metadata=metadata)]),
            "searched": len(await self._store.search(metadata=metadata, limit=1000, mode="substring")),
        }
        for mode in (Capability.TEXT, Capability.SEMANTIC, Capability.HYBRID):
            if mode in self._store.capabilities:
                ranked = await self._store.search_ranked(query="the", metadata=metadata, limit=1000, mode=mode.value)  # type: ignore[arg-type]  # these three are modes
                left[mode.value] = len(ranked)
        return left


def _one_or_all(owner: Owner, form: Form) -> tuple[str, str | None]:
    """Return the key and the id of the item that a form names; it names all by naming none."""
    key = form.get("item", "")
    return key, owner.item_id(key) if key else None


def _user_of(owner: Owner) -> str:
    if owner.user is None:
        raise InputError("Only a user can be forgotten: choose one without a session or an agent.", field="user")
    return owner.user
