"""The pages of facts: what holds of a user, the timeline of a slot with its sources, and undo.

They are there if memoranda-facts is installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from memoranda.errors import InputError
from memoranda.store import Store
from memoranda_inspector.actions import Done, Form, Preview
from memoranda_inspector.pages import Pages
from memoranda_inspector.scopes import Owner, Owners, handle_of

if TYPE_CHECKING:
    from memoranda_facts import Fact, Facts, Schema


class FactPages(Pages):
    """What is known of a user. ``schema`` is that of the program; None is that of the rules for everyday English."""

    def __init__(self, store: Store, owners: Owners, schema: Schema | None, shared: Mapping[str, Any]) -> None:
        super().__init__(store, owners, {**shared, "when": when})
        self._schema = schema

    async def overview(self, request: Request) -> Response:
        """List what holds now."""
        owner = self._owners.chosen(request)
        held = await self._facts(owner).current()
        return self._page("facts.html", owner, held=sorted(held, key=lambda fact: (fact.subject, fact.predicate)))

    async def slot(self, request: Request) -> Response:
        """Show every value that a slot ever had, newest first, each with its sources and what decided."""
        owner = self._owners.chosen(request)
        facts = self._facts(owner)
        fact = await self._fact(facts, owner, request.path_params["item"])
        values = await facts.history(fact.subject, fact.predicate)
        return self._page("slot.html", owner, fact=fact, timeline=[await facts.why(each) for each in reversed(values)])

    async def preview_undo(self, owner: Owner, form: Form) -> Preview:
        """Tell what undoing the change that a fact came with does."""
        key = form.get("item", "")
        fact = await self._fact(self._facts(owner), owner, key)
        sentence = (
            f"“{fact}” is taken back, as if it had never been recorded. What it replaced holds again. "
            "An undo can be undone."
        )
        return Preview("Undo a fact", sentence, [], {"item": key}, "Undo it")

    async def undo(self, owner: Owner, form: Form) -> Done:
        """Undo a change, which may be an undo."""
        receipt = await self._facts(owner).undo(owner.item_id(form.get("item", "")))
        return Done("The change is undone.", "undo-fact", {"item": owner.item_key(receipt.id)})

    def _facts(self, owner: Owner) -> Facts:
        from memoranda_facts import Facts
        from memoranda_facts.extraction import everyday_schema

        if not owner.has_facts:
            raise InputError("Facts belong to a user or an agent, not to one conversation: choose one.", field="user")
        scope: dict[str, Any] = {f"{kind}_id": name for kind, name in owner.names}
        return Facts(
            handle_of(self._store, scope), schema=everyday_schema(()) if self._schema is None else self._schema
        )

    async def _fact(self, facts: Facts, owner: Owner, key: str) -> Fact:
        found = await facts.get(owner.item_id(key))
        if found is None:
            raise InputError("This fact does not exist any more.", field="item")
        return found


def when(fact: Fact) -> str:
    """Return from when to when a fact holds, as people read it; empty if nothing is known of it."""
    since = "" if fact.valid_from in (None, "..") else f"since {str(fact.valid_from)[:10]}"
    until = "" if fact.valid_to is None else f"until {fact.valid_to[:10]}"
    return " ".join(filter(None, (since, until)))
