"""Strands' memory store in any store of memoranda, and plain tools as tools of Strands."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from strands.memory.extraction.types import ExtractionConfig
from strands.memory.types import AddMessagesContext, MemoryEntry, MemoryStore, SearchOptions
from strands.tools.tools import PythonAgentTool
from strands.types.content import Message
from strands.types.session import SessionMessage, encode_bytes_values
from strands.types.tools import AgentTool, ToolResult, ToolUse

from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.store.owners import space_of
from memoranda.sync import SyncStore
from memoranda_messages import PlainTool
from memoranda_messages.payload_json import encode_payload
from memoranda_messages.plain_tools import answer
from memoranda_messages.prompts import remarked
from memoranda_messages.sessions import awaitable_store, finished
from memoranda_strands.messages import SessionMessageFormat


def as_tools(tools: Iterable[PlainTool]) -> list[AgentTool]:
    """Return tools for ``Agent(tools=…)``. A mistake of the model is answered with a sentence, not raised."""
    return [
        PythonAgentTool(
            tool.name,
            {"name": tool.name, "description": tool.description, "inputSchema": {"json": dict(tool.schema)}},
            _invoked(tool),
        )
        for tool in tools
    ]


def _invoked(tool: PlainTool) -> Any:
    async def invoke(use: ToolUse, **state: Any) -> ToolResult:
        answered = await answer(tool, use["input"])
        status: Any = "error" if answered.is_error else "success"
        return {"toolUseId": use["toolUseId"], "status": status, "content": [{"text": answered.text}]}

    return invoke


MARK = "strands_memory"
"""The key of ``metadata.extra`` with the name of the memory store that an item was added to."""

MOST = 10
"""How many memories a search returns, unless it says otherwise."""


class MemorandaMemoryStore(MemoryStore):
    """Memory of Strands: ``Agent(memory_manager=MemoryManager(stores=[MemorandaMemoryStore(store)]))``.

    - ``store`` is any open store, or better a handle that is bound to a user. It is never closed.
    - A search finds what was added under this ``name``. With ``everything``, it finds whatever lies within the handle,
      including sessions, of other frameworks too.
    - ``tools``, such as those for facts, are given to the agent beside those of the memory manager.
    - ``receipt=True``, or a ``memoranda_receipts.Recording``, records what a search returns.
    - The other arguments are Strands' own.
    """

    def __init__(
        self,
        store: Store | SyncStore,
        name: str = "memoranda",
        *,
        description: str | None = None,
        max_search_results: int | None = MOST,
        writable: bool = True,
        extraction: ExtractionConfig | bool | None = None,
        everything: bool = False,
        tools: Iterable[PlainTool] = (),
        receipt: object = None,
    ) -> None:
        self.name = name
        self.description = description
        self.max_search_results = max_search_results
        self.writable = writable
        self.extraction = extraction
        self._store = awaitable_store(store)
        self._where = None if everything else {MARK: name}
        self._tools = list(tools)
        self._receipt = receipt

    def __repr__(self) -> str:
        return f"MemorandaMemoryStore({self._store!r}, {self.name!r})"

    async def search(self, query: str, options: SearchOptions | None = None) -> list[MemoryEntry]:
        """Return the memories that answer a query, best first; one that holds no longer says so."""
        most = (options or {}).get("max_search_results") or self.max_search_results
        found = await self._store.recall(query, limit=most, where=self._where)
        asked: dict[str, Any] = {"owner": self._store.bounds, "asked": {"query": query, "limit": most}}
        sources = [("long-term", item) for item in found]
        await self._store.shown(found, receipt=self._receipt, kind="recall", sources=sources, **asked)
        remarks = await self._store.outdated([item.id for item in found])
        return [_entry(item) for item in remarked(found, remarks)]

    async def add(self, content: str, metadata: dict[str, Any] | None = None) -> str:
        """Store a memory and return its id; the same content again is stored once, with the latest metadata."""
        extra = {**(metadata or {}), MARK: self.name}
        item = MemoryItem(id=self._format(content).item_id(0), content=content, metadata=MemoryMetadata(extra=extra))
        await finished(self._store.add(item, keep_created=True))
        return item.id

    async def add_messages(self, messages: list[Message], context: AddMessagesContext | None = None) -> None:
        """Store messages as they are, all or none; one that is delivered again is stored once."""
        given = context.sequence_numbers if context else None
        numbers = range(len(messages)) if given is None else given
        owner = MemoryMetadata(extra={MARK: self.name})
        items: list[MemoryItem] = []
        for number, message in zip(numbers, messages, strict=True):
            dumped = encode_payload(encode_bytes_values(message))
            key, number = (message["tracking_id"], 0) if "tracking_id" in message else (dumped, number)
            items += self._format(key).items([SessionMessage(message, number)], metadata=owner)
        await finished(self._store.add_many(items, keep_created=True))

    def get_tools(self) -> list[AgentTool]:
        """Return the tools that the store was made with."""
        return as_tools(self._tools)

    def _format(self, key: str) -> SessionMessageFormat:
        """Return the format of one memory; the ids that it derives differ for every owner and name."""
        bounds = self._store.bounds or MemoryMetadata()
        owner = (*(getattr(bounds, name) for name in SCOPE_FIELDS), *bounds.namespace)
        return SessionMessageFormat(*owner, MARK, self.name, key, derived_id=self._store.derived_id)


def _entry(item: MemoryItem) -> MemoryEntry:
    """Return an item as Strands has memories; its metadata say where it comes from."""
    named = {"id": item.id, "created_at": item.created_at, "session_id": item.metadata.session_id, "name": item.name}
    named["space"] = space_of(item)
    extra = {key: value for key, value in item.metadata.extra.items() if key != MARK}
    return MemoryEntry(item.content, metadata={**extra, **{key: value for key, value in named.items() if value}})
