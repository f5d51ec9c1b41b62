"""Short-term memory: a conversation, filtered by scope and cut to what a model may be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from memoranda.errors import InputError, UnsupportedError, unknown_name
from memoranda.integrity import call_ids, whole_groups
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.loops import filter_weight, offload
from memoranda.store.base import ScopedStore, Store
from memoranda.store.branch_layer import as_one_session
from memoranda.store.filters import (
    Filter,
    Kinds,
    Moment,
    Narrowing,
    Order,
    Page,
    check_filter,
    merge_scope,
    names_nothing,
)
from memoranda.store.in_memory import InMemoryStore
from memoranda.store.protocol import SearchMode
from memoranda.store.requests import items_where
from memoranda.store.window import read_window
from memoranda.windowing import as_said, check_rounds, last_rounds, newest

SCOPES: dict[str, tuple[str, ...]] = {
    "user": ("user_id", "agent_id"),
    "session": ("user_id", "session_id", "agent_id"),
    "task": ("user_id", "session_id", "task_id", "agent_id"),
}
"""The fields of a metadata filter that each scope matches on."""

_IGNORED = {scope: [name for name in SCOPE_FIELDS if name not in matched] for scope, matched in SCOPES.items()}


class Conversation(Store):
    """A store whose :meth:`search` returns a conversation as a model may be shown it; see :class:`ShortTermMemory`."""

    default_order = "added"
    max_rounds: int
    matched_scope: str

    async def search(
        self,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        status: MemoryStatus | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        offset: int = 0,
        order: Order | None = None,
        refresh: bool = False,
        archived: bool | None = False,
        min_score: float = 0.0,
        current: bool = False,
        as_of: Moment | None = None,
        **narrowing: Unpack[Narrowing],
    ) -> list[MemoryItem]:
        """Return the conversation that matches, oldest first, as a model may be shown it.

        It is cut in this order: by the filters (of ``metadata``, only the scope's fields, the namespace and ``extra``)
        and the keyword; to the last ``max_rounds`` rounds; by ``offset``, which leaves out the newest; to ``limit``,
        which keeps the newest of the rest, ten unless you say otherwise. Last, tool calls without all their results and
        results without their call go. System items count towards the limit, but all of them stay, unless it is 0.

        With a ``memory_type``, or a mode that ranks, the result is a listing of records: calls and results are not
        paired. Raises InputError if ``metadata`` names only fields that the scope ignores: that would mean everything;
        UnsupportedError for ``as_of``, which :meth:`window` takes.
        """
        self._ensure_open()
        if as_of is not None:
            raise UnsupportedError(self.label, "as_of in a search of a conversation", remedy="Use window(as_of=…).")
        metadata = self._in_scope(metadata)
        page, mode = Page.checked(limit, offset, self._order(order)), self._checked_mode(mode)
        said = query if mode == "substring" else ""
        wanted = self._filter(
            query=said, metadata=metadata, memory_type=memory_type, status=status, archived=archived, **narrowing
        )
        if mode != "substring" or min_score:
            return await self._listed(query, wanted, page, mode, refresh, min_score, current)
        bounds = self._bounds(metadata)
        session = None if bounds is None else bounds.session_id
        if page.order == "added" and not page.offset and _scope_of(wanted) is wanted:
            rounds = self.max_rounds or None
            much = {"rounds": rounds, "tokens": None, "limit": page.limit}
            shown = await read_window(self.engine, wanted, **much, counter=None, session=session, looked_at=None)
        else:
            shown = await self._picked(wanted, page, session)
        self._observers.searched(query, shown)
        return shown if refresh is False else await self._refreshed(shown, refresh)

    async def _picked(self, wanted: Filter, page: Page, session: str | None) -> list[MemoryItem]:
        """Return what a search shows that picks from the middle of a conversation."""
        found = (await self.engine.read(items_where(wanted, Page(order=page.order))))[::-1]
        listing = wanted.memory_type is not None
        said = None
        if not listing and any(item.group or item.memory_type == "tool" or call_ids(item) for item in found):
            # Which result answers which call shows only in the whole conversation.
            said = (await self.engine.read(items_where(_scope_of(wanted), Page(order="added"))))[::-1]
        return await offload(filter_weight(len(said or found)), self._cut, found, said, page, session, listing=listing)

    def _cut(
        self,
        found: Sequence[MemoryItem],
        said: Sequence[MemoryItem] | None,
        page: Page,
        session: str | None,
        *,
        listing: bool,
    ) -> list[MemoryItem]:
        found = as_one_session(found, session)
        if said is not None:
            said = as_one_session(said, session)
            same = {item.id: item for item in said}
            found = [same[item.id] for item in found if item.id in same]
        shown = as_said(found)
        shown = last_rounds(shown, self.max_rounds) if self.max_rounds else shown
        shown = shown[: len(shown) - page.offset] if page.offset < len(shown) else []
        if listing or not page.limit:
            return shown[-page.limit :] if page.limit else []
        return as_said(whole_groups(newest(shown, page.limit), said))  # Its beginning may have been cut off.

    def _in_scope(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        """Return the filter with only the fields that the scope matches on."""
        if metadata is None:
            return None
        if type(metadata) is not MemoryMetadata:
            check_filter(metadata)
        held = metadata.__dict__
        for name in _IGNORED[self.matched_scope]:
            if held[name] is not None:
                break
        else:
            return metadata  # It is checked when it is searched with.
        check_filter(metadata)
        fields = {name: getattr(metadata, name) for name in SCOPES[self.matched_scope]}
        narrowed = MemoryMetadata(**fields, namespace=metadata.namespace, extra=metadata.extra)
        if names_nothing(narrowed) and not names_nothing(metadata):
            given = ", ".join(name for name in SCOPE_FIELDS if getattr(metadata, name) is not None)
            used = ", ".join(SCOPES[self.matched_scope])
            raise InputError(
                f"The scope {self.matched_scope!r} matches on {used} and would ignore {given}, the only filter given. "
                f"Name one of the fields it uses, or choose another scope.",
                field="metadata",
            )
        return narrowed

    def _scoped(self, scope: MemoryMetadata) -> ScopedStore:
        return ScopedConversation(self, scope)


class ShortTermMemory(Conversation, InMemoryStore):
    """An in-memory conversation whose :meth:`search` returns what a model may be shown, oldest first.

    ``scope`` says how broadly a metadata filter matches: ``"user"``, ``"session"`` or ``"task"``. ``max_rounds`` keeps
    only the last rounds; 0 keeps all. What a search returns is cut to its ``limit`` as well, ten items by default,
    which are five short rounds: to see twenty ask for ``window(rounds=20)``. Raises InputError for any other scope.
    """

    def __init__(self, *, scope: str = "task", max_rounds: int = 0) -> None:
        if not isinstance(scope, str) or scope not in SCOPES:
            raise unknown_name("scope", scope, SCOPES, field="scope")
        super().__init__()
        self.scope = self.matched_scope = scope
        self.max_rounds = check_rounds(max_rounds)

    def __repr__(self) -> str:
        return f"ShortTermMemory(scope={self.scope!r}, max_rounds={self.max_rounds}, items={len(self)})"

    async def clear(self, *, metadata: MemoryMetadata | None = None, **narrowing: Unpack[Narrowing]) -> int:
        """Remove the items that match and return how many; without a filter, all of them.

        Removing is never broader than what was named: fields that the scope ignores for reading still narrow it here.
        """
        self._in_scope(metadata)
        return await super().clear(metadata=metadata, **narrowing)


class ScopedConversation(Conversation, ScopedStore):
    """A conversation within a scope; made by ``memory.scoped(user_id=…)``.

    Searches show what those of the conversation show, of the items in the scope. The scope binds with all its fields,
    those too that the conversation's own scope would leave out of a filter.
    """

    def __init__(self, memory: Conversation, scope: MemoryMetadata) -> None:
        super().__init__(memory, scope)
        self.max_rounds = memory.max_rounds
        self.matched_scope = memory.matched_scope

    def _in_scope(self, metadata: MemoryMetadata | None) -> MemoryMetadata | None:
        merge_scope(check_filter(metadata), self.scope)  # Another scope than the handle's is refused, used or not.
        return super()._in_scope(metadata)


def _scope_of(wanted: Filter) -> Filter:
    """Return a filter for everything that was said where this one looks; the filter itself if it asks for no more."""
    extra = wanted.metadata is not None and wanted.metadata.extra
    sought = wanted.query or wanted.memory_type is not None or wanted.status is not None
    if not extra and not sought and all(each.bounds_scope for each in wanted.further):
        return wanted
    metadata = wanted.metadata.model_copy(update={"extra": {}}) if wanted.metadata and extra else wanted.metadata
    return replace(wanted.scope(), metadata=metadata)
