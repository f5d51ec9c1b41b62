"""One person's memories as the server offers them: the scope, what may be done in it, and what was just forgotten."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from memoranda.errors import InputError, quoted
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda_mcp import addresses
from memoranda_mcp.changes import Changes
from memoranda_mcp.contents import Content, content_of

if TYPE_CHECKING:
    from memoranda.store import ScopedStore
    from memoranda_summary import Summarizer

REMEMBERED_FORGETTINGS = 1000
"""How many of the last calls to forget can be taken back."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What the server lets an assistant do. They come from how it was started, never from what it is told."""

    read_only: bool = False
    allow_purge: bool = False
    graph: bool = False


@dataclass(slots=True)
class Desk:
    """The memories of one scope. Every request of one person goes through their own, and through no other.

    ``store`` is bound to the scope and cannot see beyond it; ``graph_store`` is bound to the person alone, so that a
    graph is the same in all of their conversations. Without a ``summarizer`` the assistant writes summaries itself.
    """

    store: ScopedStore
    graph_store: ScopedStore
    rights: Rights = Rights()
    summarizer: Summarizer | None = None
    forgotten: list[tuple[str, ...]] = field(default_factory=list)
    changes: Changes = field(init=False)

    def __post_init__(self) -> None:
        self.changes = Changes(self.place_of, self.read)

    def within(self, conversation: str | None) -> MemoryMetadata | None:
        """Return the filter for one conversation of this scope; None for all of it.

        Raises InputError for a conversation that is not the one that the server is bound to.
        """
        bound = self.store.scope.session_id
        if conversation is None:
            return None
        if bound is not None and conversation != bound:
            raise InputError(
                "This server is bound to one conversation, and that is not its name. Leave `conversation` out.",
                field="conversation",
            )
        return MemoryMetadata(session_id=conversation)

    def place_of(self, uri: str) -> tuple[str, str]:
        """Return the kind and the name of a resource that is offered here, there now or later.

        Raises InputError for others: a conversation other than the one that the server is bound to is never there, nor
        is the graph without the right.
        """
        place = addresses.parsed(uri)
        if place is None or (place[0] == "knowledge-graph" and not self.rights.graph):
            raise InputError(f"There is no such resource here: {quoted(uri, text=True)}.", field="uri")
        if place[0] == "conversations":
            self.within(place[1])
        return place

    async def read(self, uri: str) -> Content | None:
        """Return what a resource holds now, or None if there is nothing at its address. Raises as place_of() does."""
        kind, name = self.place_of(uri)
        metadata = self.within(name) if kind == "conversations" else None
        return await content_of(self.store, self.graph_store, kind, metadata, name)

    async def find(self, item_id: str) -> MemoryItem:
        """Return the item of this id. Raises InputError if there is none here, whoever else may have one."""
        item = await self.store.get(item_id)
        if item is None:
            raise InputError(
                "There is no memory with this id here. Ids come from search, recall and recent, and are used as they "
                "are written there.",
                field="id",
            )
        return item

    def note_forgotten(self, ids: Iterable[str]) -> None:
        """Remember what a call removed, so that it can be taken back while this server runs."""
        self.forgotten.append(tuple(ids))
        del self.forgotten[:-REMEMBERED_FORGETTINGS]
