"""The pages of the quarantine: what a policy keeps apart and why, and a person's decision on it.

Nobody approves what they have not read: the page of a decision shows the whole item, and the decision counts only for
what was shown.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from memoranda.errors import InputError
from memoranda.items import MemoryMetadata
from memoranda.store import Capability
from memoranda.trust import origin_of, trust_of
from memoranda_guard import QuarantinedMemory, approve, quarantined, reject
from memoranda_inspector.pages import SHOWN_ALONE, Pages, form_of, json_text, shortened
from memoranda_inspector.scopes import Owner

MOST_SHOWN = 200

_TITLES = {"approve": "Approve this item?", "reject": "Reject this item?"}


@dataclass(frozen=True, slots=True)
class Kept:
    """An item in quarantine on a page, with the key that forms call it by."""

    key: str
    item: QuarantinedMemory
    trust: str
    origin: str | None
    content: str

    @property
    def mark(self) -> str:
        """A hash of what is kept, which a decision repeats: it counts for this and for nothing newer."""
        whole = f"{self.item.version}\n{self.item.payload}"
        return hashlib.sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


class QuarantinePages(Pages):
    """What is kept apart, newest first, and the decisions on it."""

    _signature = ""
    """Who approved last, for the next form."""

    async def quarantine(self, request: Request) -> Response:
        """List the items. A store that cannot hide items has no quarantine."""
        hides = Capability.ADD_DELETED in self._store.capabilities
        found = await quarantined(self._store) if hides else []
        rows = [self._kept(item) for item in found[: -MOST_SHOWN - 1 : -1]]
        return self._page("quarantine.html", rows=rows, total=len(found))

    async def preview(self, request: Request) -> Response:
        """Show all of an item, and ask for the decision."""
        decision = _decision(request)
        kept = await self._found(await form_of(request))
        content, hidden = shortened(kept.content, SHOWN_ALONE)
        values: dict[str, Any] = {"kept": kept, "content": content, "hidden": hidden, "signature": self._signature}
        values |= {"decision": decision, "title": _TITLES[decision], "fields": json_text(_without_content(kept.item))}
        return self._page("quarantine_decision.html", **values)

    async def decide(self, request: Request) -> Response:
        """Approve an item in the name of a person, or reject it."""
        decision, form = _decision(request), await form_of(request)
        kept = await self._found(form)
        if form.get("mark", "") != kept.mark:
            raise InputError("This item has changed since you read it, and nothing was decided. Read it again.")
        if decision == "approve":
            signature = form.get("by", "").strip()
            await approve(self._store, kept.item.id, by=signature)
            self._signature = signature
            sentence = f"Approved by {signature}. The item is stored as it was written."
        else:
            await reject(self._store, kept.item.id)
            sentence = "Rejected. The item is removed for good."
        owner = self._owner_of(kept.item) if decision == "approve" else None
        return self._page("quarantine_decided.html", sentence=sentence, stored_at=owner)

    async def _found(self, form: dict[str, str]) -> Kept:
        item_id = self._everybody.item_id(form.get("item", ""))
        for item in await quarantined(self._store):
            if item.id == item_id:
                return self._kept(item)
        raise InputError("This item is not in quarantine any more: somebody has decided on it.", field="item")

    def _kept(self, item: QuarantinedMemory) -> Kept:
        content = str(item.original().get("content", ""))
        return Kept(self._everybody.item_key(item.id), item, str(trust_of(item)), origin_of(item), content)

    @property
    def _everybody(self) -> Owner:
        """All owners together, which gives the keys: the quarantine is one list for all of them."""
        return self._owners.named(None)

    def _owner_of(self, item: QuarantinedMemory) -> Owner | None:
        """Return the conversation that an item belongs to, if it belongs to anybody."""
        owner = MemoryMetadata(user_id=item.metadata.user_id, session_id=item.metadata.session_id)
        return None if owner == MemoryMetadata() else self._owners.named(owner)


def _decision(request: Request) -> str:
    decision = str(request.path_params["decision"])
    if decision not in _TITLES:
        raise InputError("An item is approved or rejected; there is no other decision.", field="decision")
    return decision


def _without_content(item: QuarantinedMemory) -> dict[str, Any]:
    """Return everything else that an item says."""
    return {name: value for name, value in item.original().items() if name != "content"}
