"""The page of the quarantine: what a policy keeps apart, why, and how it begins. It changes nothing."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memoranda.store import Capability, Store
from memoranda.trust import origin_of, trust_of
from memoranda_guard import quarantined
from memoranda_inspector.pages import rendered

MOST_SHOWN = 200


class QuarantinePages:
    """Lists what is kept apart, newest first."""

    def __init__(self, store: Store, shared: dict[str, Any]) -> None:
        self._store = store
        self._shared = shared

    async def quarantine(self, request: Request) -> Response:
        """Show the items. A store that cannot hide items has no quarantine."""
        hides = Capability.ADD_DELETED in self._store.capabilities
        found = await quarantined(self._store) if hides else []
        rows = [
            (item, trust_of(item), origin_of(item), str(item.original().get("content", "")))
            for item in found[: -MOST_SHOWN - 1 : -1]
        ]
        return rendered("quarantine.html", {**self._shared, "owner": None, "rows": rows, "total": len(found)})
