"""The pages of what can be done. A read-only inspector has none of them."""

from __future__ import annotations

import json
import secrets
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memoranda.errors import InputError
from memoranda.store import BaseStore, Capability
from memoranda_inspector.acts import Acts
from memoranda_inspector.exporting import exported
from memoranda_inspector.pages import form_of, rendered
from memoranda_inspector.reading import chosen
from memoranda_inspector.scopes import Owners


class ActPages:
    """Previews, acts, receipts and exports."""

    def __init__(self, store: BaseStore, owners: Owners, acts: Acts, shared: dict[str, Any]) -> None:
        self._store = store
        self._owners = owners
        self._acts = acts
        self._shared = shared
        self._receipts: dict[str, dict[str, Any]] = {}

    async def acts(self, request: Request) -> Response:
        """Show what can be done with all of an owner's memories."""
        can_restore = Capability.DELETE in self._store.capabilities
        return self._page("acts.html", request, can_restore=can_restore)

    async def preview(self, request: Request) -> Response:
        """Show what an act would do."""
        act = request.path_params["act"]
        if act not in self._acts.previews:
            raise InputError("There is no such act.", field="act")
        preview = await self._acts.previews[act](chosen(self._owners, request), await form_of(request))
        return self._page("preview.html", request, preview=preview, act=act)

    async def do(self, request: Request) -> Response:
        """Do it, and show what came of it and how it is taken back."""
        act = request.path_params["act"]
        if act not in self._acts.doings:
            raise InputError("There is no such act.", field="act")
        done = await self._acts.doings[act](chosen(self._owners, request), await form_of(request))
        receipt = ""
        if done.receipt is not None:
            receipt = secrets.token_hex(16)
            self._receipts[receipt] = done.receipt
        return self._page("done.html", request, done=done, receipt=receipt)

    async def receipt(self, request: Request) -> Response:
        """Send the receipt of a forgotten user as a file."""
        found = self._receipts.get(request.path_params["key"])
        if found is None:
            raise InputError("There is no such receipt since the inspector was started.", field="receipt")
        headers = {"Content-Disposition": 'attachment; filename="receipt.json"'}
        written = json.dumps(found, ensure_ascii=False, indent=2) + "\n"
        return Response(written, media_type="application/json", headers=headers)

    async def export(self, request: Request) -> Response:
        """Send an owner's memories as a file."""
        owner = chosen(self._owners, request)
        await form_of(request)
        headers = {"Content-Disposition": 'attachment; filename="memories.jsonl"'}
        lines = exported(self._store, owner.metadata)
        return StreamingResponse(lines, media_type="application/x-ndjson", headers=headers)

    def _page(self, template: str, request: Request, **values: Any) -> Response:
        return rendered(template, {**self._shared, "owner": chosen(self._owners, request), **values})
