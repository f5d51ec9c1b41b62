"""The page of what a model gets: the prompt for a question in a session, or the window without one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_inspector.context import (
    EVERY,
    FORMATS,
    LOOKED_AT,
    NO,
    Setting,
    View,
    assembled_view,
    differences,
    window_view,
)
from memoranda_inspector.pages import Owner, Owners, Pages, form_of, in_page, json_text, newest_sessions, number_of

PAYLOAD_SHOWN = 200_000
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
