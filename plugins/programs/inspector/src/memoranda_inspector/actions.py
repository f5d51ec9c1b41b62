"""The actions that change something. Each has a preview, and an undo where there is one.

A read-only inspector has none of these pages.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, SummaryMemory
from memoranda.store import Capability, Store
from memoranda_commands.terminal import counted
from memoranda_guard import quarantined
from memoranda_guard.quarantine import QUARANTINED
from memoranda_inspector.pages import Owner, Owners, Pages, form_of, number_of, shown_name
from memoranda_summary import SummaryConfig, compact, expand, plan, undo
from memoranda_userdata import Digest, count_user, erase_user, export_lines, hidden_items

Form = Mapping[str, str]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Preview:
    """What an action would do: a sentence, the items that it affects, and what the form needs to do it."""

    title: str
    sentence: str
    items: list[MemoryItem] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    """The hidden fields of the form."""
    button: str = ""
    """The label of the button; empty if there is nothing to do."""
    typed: str = ""
    """What the person has to type to confirm an action that has no undo."""


@dataclass(frozen=True, slots=True)
class Done:
    """What an action did, and the action that undoes it."""

    sentence: str
    undo: str = ""
    values: dict[str, str] = field(default_factory=dict)
    receipt: dict[str, Any] | None = None


class Actions:
    """Runs the actions through the store's public methods, each within the scope of the owner that was chosen.

    ``name`` is what receipts call the store.
    """

    def __init__(self, store: Store, name: str, summarizer: Any, templates: tuple[str, ...]) -> None:
        self._store = store
        self._name = name
        self._summarizer = summarizer
        self._templates = templates
        self.previews: dict[str, Callable[[Owner, Form], Awaitable[Preview]]] = {
            "delete": self._preview_delete,
            "restore": self._preview_restore,
            "undo": self._preview_undo,
            "compact": self._preview_compact,
            "forget": self._preview_forget,
        }
        self.runs: dict[str, Callable[[Owner, Form], Awaitable[Done]]] = {
            "delete": self._delete,
            "restore": self._restore,
            "undo": self._undo,
            "compact": self._compact,
            "forget": self._forget,
        }

    async def _preview_delete(self, owner: Owner, form: Form) -> Preview:
        item = await self._item(owner, form)
        if Capability.DELETE not in self._store.capabilities:
            return Preview("Delete", "This store cannot restore what is deleted, so nothing is deleted here.", [item])
        together = "" if item.group is None else " Models are shown its group only as a whole."
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
            raise InputError("This item does not exist any more.", field="item")
        return Done("One item is deleted.", "restore", {"item": key})

    async def _preview_restore(self, owner: Owner, form: Form) -> Preview:
        key, item_id = _one_or_all(owner, form)
        hidden = [item for item in await self._deleted(owner.metadata) if item_id in (None, item.id)]
        if not hidden:
            return Preview("Restore", "Nothing is deleted here.")
        return Preview(
            "Restore", f"{counted(len(hidden), 'item')} would be shown again.", hidden, {"item": key}, "Restore"
        )

    async def _restore(self, owner: Owner, form: Form) -> Done:
        key, item_id = _one_or_all(owner, form)
        if item_id is None and not await quarantined(self._store, metadata=owner.metadata):
            number = await self._store.restore(metadata=owner.metadata)
        else:
            wanted = [item.id for item in await self._deleted(owner.metadata) if item_id in (None, item.id)]
            number = sum([await self._store.restore(each, metadata=owner.metadata) for each in wanted])
        if number == 1 and key:
            return Done("One item is back.", "delete", {"item": key})
        return Done(f"Restored: {counted(number, 'item')}.")

    async def _preview_undo(self, owner: Owner, form: Form) -> Preview:
        item = await self._item(owner, form)
        if not isinstance(item, SummaryMemory):
            raise InputError("Only a summary can be undone.", field="item")
        sources = await expand(self._store, item.id, metadata=owner.metadata, deep=False)
        sentence = (
            f"The summary goes, and {counted(len(sources), 'item')} that it stands for would be shown again. "
            "The same summary cannot be brought back; compacting again asks the model anew."
        )
        return Preview("Undo a summary", sentence, [item, *sources], {"item": owner.item_key(item.id)}, "Undo it")

    async def _undo(self, owner: Owner, form: Form) -> Done:
        back = await undo(self._store, owner.item_id(form.get("item", "")), metadata=owner.metadata)
        return Done(f"The summary is gone; {counted(len(back), 'item')} came back.")

    async def _preview_compact(self, owner: Owner, form: Form) -> Preview:
        config, keep = self._config(form)
        planned = await plan(self._store, owner.metadata, config, force=True)
        due = planned.trigger.reason or "no threshold is exceeded, so an agent would not do it yet"
        messages, tokens = planned.trigger.message_count, planned.trigger.estimated_tokens
        size = f"{counted(messages, 'message')}, about {tokens:,} tokens: {due}."
        if not planned.older:
            return Preview("Compact", f"There is nothing to summarize. {size}")
        sentence = f"{counted(len(planned.older), 'item')} would be archived, and a summary shown instead. {size}"
        if self._summarizer is None:
            sentence += " No model was named when the inspector was started (--model), so this is only a dry run."
            return Preview("Compact", sentence, list(planned.older))
        return Preview("Compact", sentence, list(planned.older), {"keep": str(keep)}, "Ask the model and compact")

    async def _compact(self, owner: Owner, form: Form) -> Done:
        if self._summarizer is None:
            raise InputError("No model was named when the inspector was started.", field="model")
        config, _ = self._config(form)
        result = await compact(self._store, owner.metadata, config, self._summarizer, force=True)
        if result.summary_id is None:
            return Done("There was nothing to summarize.")
        made = counted(len(result.summaries), "summary", "summaries")
        sentence = f"{counted(len(result.archived), 'item')} archived, {made} made."
        return Done(sentence, "undo", {"item": owner.item_key(result.summary_id)})

    async def _preview_forget(self, owner: Owner, form: Form) -> Preview:
        user = _user_of(owner)
        receipt = await count_user(self._store, self._name, user)
        sentence = (
            f"{counted(receipt.found, 'item')} and {receipt.deleted:,} deleted already are erased for good, in every "
            "session. This cannot be undone. What others' memories say about this user stays."
        )
        return Preview("Forget this user", sentence, [], {}, "Erase for good", shown_name(user))

    async def _forget(self, owner: Owner, form: Form) -> Done:
        user = _user_of(owner)
        if form.get("typed", "") != shown_name(user):
            raise InputError("What was typed is not the user's id; nothing was erased.", field="typed")
        receipt = await count_user(self._store, self._name, user)
        await erase_user(self._store, receipt)
        verdict = "Nothing is left."
        if not receipt.complete:
            verdict = receipt.pending or "Something is left: another process may still be writing."
        return Done(f"{counted(receipt.removed, 'item')} erased. {verdict}", receipt=receipt.as_json())

    def _config(self, form: Form) -> tuple[SummaryConfig, int]:
        keep = number_of(form, "keep", 4, 1000)
        # A template that is not installed works too, with a prompt of its own.
        prompts = {"notes": "Summarize the conversation.\n{content}"} if "notes" in self._templates else {}
        return SummaryConfig(templates=self._templates, prompts=prompts, keep_recent=keep), keep

    async def _item(self, owner: Owner, form: Form) -> MemoryItem:
        item = await self._store.get(owner.item_id(form.get("item", "")), metadata=owner.metadata)
        if item is None:
            raise InputError("This item does not exist any more.", field="item")
        return item

    async def _deleted(self, metadata: MemoryMetadata | None) -> list[MemoryItem]:
        """Return what can be restored; what is in quarantine is hidden, too, and only an approval shows it."""
        if Capability.DELETE not in self._store.capabilities:
            return []
        return [item async for item in hidden_items(self._store, metadata) if item.memory_type != QUARANTINED]


def _one_or_all(owner: Owner, form: Form) -> tuple[str, str | None]:
    """Return the key and the id of the item that a form names. A form that names none means all items."""
    key = form.get("item", "")
    return key, owner.item_id(key) if key else None


def _user_of(owner: Owner) -> str:
    if owner.user is None:
        raise InputError("Only a user can be forgotten: choose one without a session or an agent.", field="user")
    return owner.user


class ActionPages(Pages):
    """The pages of previews, actions, receipts and exports."""

    def __init__(self, store: Store, name: str, owners: Owners, actions: Actions, shared: Mapping[str, Any]) -> None:
        super().__init__(store, owners, shared)
        self._name = name
        self._actions = actions
        self._receipts: dict[str, dict[str, Any]] = {}

    async def overview(self, request: Request) -> Response:
        can_restore = Capability.DELETE in self._store.capabilities
        return self._page("actions.html", self._owners.chosen(request), can_restore=can_restore)

    async def preview(self, request: Request) -> Response:
        action = self._named(request, self._actions.previews)
        owner = self._owners.chosen(request)
        preview = await action(owner, await form_of(request))
        return self._page("preview.html", owner, preview=preview, action=request.path_params["action"])

    async def run(self, request: Request) -> Response:
        action = self._named(request, self._actions.runs)
        owner = self._owners.chosen(request)
        done = await action(owner, await form_of(request))
        receipt = ""
        if done.receipt is not None:
            receipt = secrets.token_hex(16)
            self._receipts[receipt] = done.receipt
        return self._page("done.html", owner, done=done, receipt=receipt)

    def _named(
        self, request: Request, actions: dict[str, Callable[[Owner, Form], Awaitable[T]]]
    ) -> Callable[[Owner, Form], Awaitable[T]]:
        found = actions.get(request.path_params["action"])
        if found is None:
            raise InputError("There is no such action.", field="action")
        return found

    async def receipt(self, request: Request) -> Response:
        found = self._receipts.get(request.path_params["key"])
        if found is None:
            raise InputError("There is no such receipt since the inspector was started.", field="receipt")
        headers = {"Content-Disposition": 'attachment; filename="receipt.json"'}
        text = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
        return Response(text, media_type="application/json", headers=headers)

    async def export(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        await form_of(request)
        headers = {"Content-Disposition": 'attachment; filename="memories.jsonl"'}
        lines = export_lines(self._store, self._name, Digest(), metadata=owner.metadata)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)
