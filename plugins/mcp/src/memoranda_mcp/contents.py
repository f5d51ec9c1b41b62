"""What resources hold: a memory or the newest ones as JSON, a conversation as text, the knowledge graph as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from memoranda.integrity import results_behind_calls
from memoranda_context.prompt import conversation_entry
from memoranda_mcp.graph import Graph
from memoranda_mcp.tools.memories import shown

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata
    from memoranda.store import ScopedStore

RECENT = 50
"""How many of the newest memories there are in the list of recent ones."""

MOST_SHOWN = 200
"""How many memories the text of a conversation shows at the most: its newest."""

JSON = "application/json"


class Content(NamedTuple):
    """The text of a resource and its media type."""

    text: str
    mime_type: str


async def content_of(
    store: ScopedStore, graph_store: ScopedStore, kind: str, metadata: MemoryMetadata | None, name: str
) -> Content | None:
    """Return what a resource of this kind holds now, or None if there is nothing at its address."""
    if kind == "items":
        item = await store.get(name)
        if item is None:
            return None
        return Content(json.dumps(shown(item).model_dump(mode="json"), ensure_ascii=False, indent=1), JSON)
    if kind == "knowledge-graph":
        return Content(json.dumps(await Graph(graph_store).read(), ensure_ascii=False, indent=2), JSON)
    if kind == "recent":
        newest = [shown(item).model_dump(mode="json") for item in await store.search(limit=RECENT)]
        return Content(json.dumps(newest, ensure_ascii=False, indent=1), JSON)
    said = await store.window(metadata=metadata, limit=MOST_SHOWN)
    if not said and not await store.count(metadata=metadata):
        return None
    return Content("\n".join(conversation_entry(item) for item in results_behind_calls(said)), "text/plain")
