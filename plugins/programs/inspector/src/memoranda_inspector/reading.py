"""The pages of owners, conversations, items, searches, contexts and of ``memoranda doctor``, which only read."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response

from memoranda.errors import InputError, MemoryError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Finding, Store, dump_item
from memoranda.store import Owner as Listed
from memoranda_backend.ranking import PRIOR, Weights
from memoranda_commands.stores import item_findings, own_findings, plugin_findings
from memoranda_inspector.context import (
    EVERY,
    FORMATS,
    LOOKED_AT,
    NO,
    Setting,
    View,
    assembled_view,
    differences,
    why_unseen,
    window_view,
)
from memoranda_inspector.feature_pages import ReceiptPages
from memoranda_inspector.pages import (
    PAGE,
    SHOWN_ALONE,
    Owner,
    Owners,
    Pages,
    count_items,
    decimal_of,
    entry_of,
    form_of,
    in_page,
    json_text,
    newest_sessions,
    number_of,
    read_conversation,
    shortened,
    shown_name,
)
from memoranda_inspector.searching import (
    MOVABLE,
    EmbeddedCopy,
    installed_embedders,
    modes_of,
    modes_with,
    search,
    weights_of,
)
from memoranda_summary import expand

OWNERS_SHOWN = 50
PAYLOAD_SHOWN = 200_000
KINDS = {"user_id": "Users", "session_id": "Sessions", "agent_id": "Agents"}
_MOST_OWNERS = 100_000_000


class ReadingPages(Pages):
    """Owners, conversations, items and searches."""

    def __init__(
        self, store: Store, owners: Owners, shared: Mapping[str, Any], receipts: ReceiptPages | None = None
    ) -> None:
        super().__init__(store, owners, shared)
        self._receipts = receipts
        self._copy = EmbeddedCopy(store)

    async def owners(self, request: Request) -> Response:
        """List the owners. The search is a form, so that no name appears in an address."""
        form = await form_of(request) if request.method == "POST" else {}
        given = {**request.query_params, **form}
        by = given.get("by", "user_id")
        if by not in KINDS:
            raise InputError("There are users, sessions and agents.", field="by")
        wanted, offset = given.get("find", "").strip(), number_of(given, "offset", 0, _MOST_OWNERS)
        found, more = await self._listed(by, wanted, offset)
        rows = [(self._owners.named(MemoryMetadata.model_validate({by: owner.value})), owner) for owner in found]
        place: dict[str, Any] = {"offset": offset, "more": more, "page_size": OWNERS_SHOWN}
        part = "_owners.html" if in_page(request) else "owners.html"
        return self._page(part, by=by, kinds=KINDS, rows=rows, find=wanted, **place)

    async def _listed(self, by: str, wanted: str, offset: int) -> tuple[list[Listed], bool]:
        size = OWNERS_SHOWN + 1
        if by == "session_id":
            found = [owner for owner in await newest_sessions(self._store, None) if _is_called(owner, wanted)]
            return found[offset : offset + OWNERS_SHOWN], len(found) > offset + OWNERS_SHOWN
        if not wanted:
            found = [owner async for owner in self._store.owners(by, limit=size, offset=offset)]  # type: ignore[arg-type]  # checked by the caller
        else:
            found, passed = [], 0
            async for owner in self._store.owners(by):  # type: ignore[arg-type]  # checked by the caller
                if _is_called(owner, wanted):
                    passed += 1
                    if passed > offset:
                        found.append(owner)
                    if len(found) == size:
                        break
        return found[:OWNERS_SHOWN], len(found) == size

    async def everybody(self, request: Request) -> Response:
        """Choose all owners together, which only its own form can do."""
        await form_of(request)
        return RedirectResponse(self._owners.named(None).address, status_code=303)

    async def conversation(self, request: Request) -> Response:
        """Show a conversation, newest page first."""
        owner = self._owners.chosen(request)
        values = await self._conversation(request, owner)
        total = await count_items(self._store, owner.metadata)
        narrower = owner.metadata is not None and owner.metadata.session_id is None
        return self._page("conversation.html", owner, **values, has_sessions=narrower, total=total)

    async def sessions(self, request: Request) -> Response:
        """List the newest sessions of an owner.

        This may take longer than the rest of the page, so it is loaded on its own.
        """
        owner = self._owners.chosen(request)
        newest = (await newest_sessions(self._store, owner.metadata))[:OWNERS_SHOWN]
        sessions = [(self._owners.narrowed(owner, str(found.value)), found) for found in newest]
        return self._page("_sessions.html" if in_page(request) else "sessions.html", owner, sessions=sessions)

    async def live(self, request: Request) -> Response:
        """Answer a page that polls: with nothing, unless something changed."""
        owner = self._owners.chosen(request)
        values = await self._conversation(request, owner)
        if values["conversation"].mark == request.query_params.get("mark"):
            return Response(status_code=204)
        return self._page("_conversation.html", owner, **values)

    async def _conversation(self, request: Request, owner: Owner) -> dict[str, Any]:
        asked = request.query_params
        archived, deleted = asked.get("archived") == "1", asked.get("deleted") == "1"
        offset = number_of(asked, "offset", 0, _MOST_OWNERS)
        conversation = await read_conversation(
            self._store, owner.metadata, offset=offset, archived=archived, deleted=deleted
        )
        if self._receipts is not None:
            conversation = await self._receipts.placed(conversation, owner)
        return {"conversation": conversation, "archived": archived, "deleted": deleted, "page_size": PAGE}

    async def item(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        item = await self._item(request, owner)
        fields = dump_item(item)
        content, hidden = shortened(fields.pop("content"), SHOWN_ALONE)
        written = json_text(fields)
        values = {"entry": entry_of(item), "content": content, "hidden": hidden, "fields": written[:PAYLOAD_SHOWN]}
        values |= {"unseen": await why_unseen(self._store, item, Setting()), "setting": Setting()}
        values["seen_by"] = [] if self._receipts is None else await self._receipts.seen(owner, item)
        granting = [observer for observer in self._store.observers if hasattr(observer, "readers")]
        values["readers"] = [reader for observer in granting for reader in await observer.readers(item)]
        values["knows_grants"] = bool(granting)
        return self._page("item.html", owner, **values)

    async def text(self, request: Request) -> Response:
        item = await self._item(request, self._owners.chosen(request))
        headers = {"Content-Disposition": 'attachment; filename="item.txt"'}
        return PlainTextResponse(item.content.encode("utf-8", "replace"), headers=headers)

    async def sources(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        item_id = owner.item_id(request.path_params["item"])
        found = await expand(self._store, item_id, metadata=owner.metadata, deep=False)
        entries = [entry_of(item, "archived" if item.archived_by else "") for item in found]
        return self._page("_sources.html", owner, entries=entries)

    async def search(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        form = await form_of(request) if request.method == "POST" else {}
        usual = {name: getattr(Weights(), name) for name in MOVABLE} | {"semantic": round(PRIOR.semantic, 2)}
        chosen = {name: decimal_of(form, name, value, 1.0) for name, value in usual.items()}
        weights = weights_of({name: value for name, value in chosen.items() if value != usual[name]})
        modes, copied_modes = modes_of(self._store), modes_with(installed_embedders(self._store))
        mode, query = form.get("mode", modes[0]), form.get("query", "")
        plain_mode, _, embedder = mode.partition(" with ")
        copied = mode in copied_modes and query.strip()
        async with self._copy.of(owner.metadata, embedder) if copied else nullcontext(self._store) as searched:
            results = await search(searched, owner.metadata, query, plain_mode if copied else mode, weights)
        values = {
            "results": results,
            "query": query,
            "mode": mode,
            "modes": modes,
            "copied_modes": copied_modes,
            "weights": {name: (chosen[name], value) for name, value in usual.items()},
            "moved": chosen != usual,
        }
        part = "_results.html" if in_page(request) else "search.html"
        return self._page(part, owner, **values)

    async def _item(self, request: Request, owner: Owner) -> MemoryItem:
        item = await self._store.get(owner.item_id(request.path_params["item"]), metadata=owner.metadata)
        if item is None:
            raise InputError("There is no such item here, or it is deleted.", field="item")
        return item


def _is_called(owner: Listed, wanted: str) -> bool:
    """Return True if an owner's name, or what a page shows of it, contains a text."""
    called, sought = str(owner.value), wanted.casefold()
    return sought in called.casefold() or sought in shown_name(called, 2000).casefold()


WAIT = 1.0  # How many seconds a page waits for the end of a check before it shows what was found so far.


class HealthCheck:
    """One check of a store: what was found so far, and what is being done."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._started = time.monotonic()
        self.findings = plugin_findings()
        self.doing = "Reading every item"
        """What is being done; empty at the end."""
        self.read = 0
        self.total = 0

    @property
    def seconds(self) -> int:
        return int(time.monotonic() - self._started)

    async def run(self) -> None:
        """Check everything. An error is a finding; of an unexpected one only the type is shown."""
        try:
            self.total = await self._store.count()
            self.findings += await item_findings(self._store, self._advance)
            self.doing = "The store is checking itself"
            self.findings += await own_findings(self._store)
        except Exception as error:  # noqa: BLE001  # its message may quote what is stored
            said = str(error) if isinstance(error, MemoryError) else f"It failed with {type(error).__name__}."
            self.findings.append(Finding("check", False, said, "Run it again."))
        self.doing = ""

    def _advance(self, read: int) -> None:
        self.read += read


class HealthPages(Pages):
    """Starts a check with each visit, unless one is running, and shows its progress."""

    _check: HealthCheck | None = None
    _running: asyncio.Task[None] | None = None

    async def health(self, request: Request) -> Response:
        """Show what is found so far. A page that asks again does not start a new check."""
        if self._check is None or self._running is None or (self._running.done() and not in_page(request)):
            self._check = HealthCheck(self._store)
            self._running = asyncio.create_task(self._check.run())
        await asyncio.wait({self._running}, timeout=WAIT)
        template = "_health.html" if in_page(request) else "health.html"
        return self._page(template, check=self._check)


MESSAGES_SHOWN = 200
SESSIONS_OFFERED = 50
NEW = "new"
"""What the form calls a session that has yet to begin."""

_MOST_ITEMS = 100_000_000

Form = dict[str, str]


@dataclass(frozen=True, slots=True)
class Choice:
    """A session that the page offers: the key that its form sends, its name, and when something was last said in it."""

    key: str
    name: str
    last: str


class ContextPages(Pages):
    """What a model would get of an owner's memories. ``soul`` is the file that prompts begin with."""

    def __init__(self, store: Store, owners: Owners, soul: Path | None, shared: Mapping[str, Any]) -> None:
        super().__init__(store, owners, shared)
        self._soul = soul

    async def context(self, request: Request) -> Response:
        owner = self._owners.chosen(request)
        form = await form_of(request) if request.method == "POST" else {}
        # The settings themselves are not drawn again while they are moved.
        choices = [] if in_page(request) else await self._choices(owner)
        if request.method == "GET" and choices:
            form = {"session": choices[0].key}
        chosen = self._session(owner, form)
        views = await self._views(chosen, form)
        shown_form = form.get("format", "openai")
        payloads = {name: json_text(view.payload(shown_form)) for name, view in views.items()}
        values = {
            "views": views,
            "payloads": {name: (text[:PAYLOAD_SHOWN], len(text)) for name, text in payloads.items()},
            "messages_shown": MESSAGES_SHOWN,
            "form": form,
            "format": shown_form,
            "formats": FORMATS,
            "question": form.get("question", ""),
            "filter": form.get("filter", ""),
            "page_size": LOOKED_AT,
            "difference": differences(*views.values()) if len(views) == 2 else None,
            "choices": choices,
            "session": form.get("session", ""),
            "new": NEW,
            "chosen": chosen,
            "templates": [] if in_page(request) else await self._templates(chosen),
            "defaults": Setting(),
        }
        part = "_answer.html" if in_page(request) else "context.html"
        return self._page(part, owner, **values)

    async def payload(self, request: Request) -> Response:
        form = await form_of(request)
        views = await self._views(self._session(self._owners.chosen(request), form), form)
        headers = {"Content-Disposition": 'attachment; filename="payload.json"'}
        return JSONResponse(views["A"].payload(form.get("format", "openai")), headers=headers)

    async def _choices(self, owner: Owner) -> list[Choice]:
        """Return the sessions that a question can be asked in, newest first; none for one session or all owners."""
        if owner.metadata is None or owner.metadata.session_id is not None:
            return []
        newest = (await newest_sessions(self._store, owner.metadata))[:SESSIONS_OFFERED]
        return [
            Choice(self._owners.narrowed(owner, str(found.value)).key, str(found.value), found.last) for found in newest
        ]

    def _session(self, owner: Owner, form: Form) -> Owner:
        """Return the session that a form names, which must be one of the owner's; the owner itself without one."""
        key = form.get("session", "")
        if key in ("", NEW):
            return owner
        chosen = self._owners.listed(key)
        named = None if chosen.metadata is None else chosen.metadata.session_id
        if named is None or self._owners.narrowed(owner, named).key != key:
            raise InputError("This session is not one of this owner's; choose it again.", field="session")
        return chosen

    async def _views(self, owner: Owner, form: Form) -> dict[str, View]:
        question, newer = form.get("question", "").strip(), number_of(form, "newer", 0, _MOST_ITEMS)
        views = {}
        for name in ("A", "B") if form.get("compare") == "1" else ("A",):
            view = await window_view(self._store, owner.metadata, _setting(form, name.lower()), newer)
            if question:
                view = await assembled_view(self._store, owner.metadata, view, question, self._soul)
            views[name] = view
        return views

    async def _templates(self, owner: Owner) -> list[str]:
        """Return which summaries can be chosen: those of every template that the owner's are made by."""
        summaries = await self._store.search(
            metadata=owner.metadata, memory_type="summary", limit=200, mode="substring"
        )
        return [EVERY, NO, *sorted({str(getattr(item, "template", "")) for item in summaries} - {"", EVERY, NO})]


def _setting(form: Form, prefix: str) -> Setting:
    usual = Setting()
    unbounded = {name for name in ("rounds", "tokens") if form.get(f"{prefix}_{name}_off") == "1"}
    return Setting(
        None if "rounds" in unbounded else number_of(form, f"{prefix}_rounds", usual.rounds or 0, 1000),
        None if "tokens" in unbounded else number_of(form, f"{prefix}_tokens", usual.tokens or 0, 1_000_000),
        form.get(f"{prefix}_template", EVERY),
    )
