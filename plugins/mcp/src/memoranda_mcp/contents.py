"""What resources hold: a memory or the newest ones as JSON, a conversation as text, the knowledge graph as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from memoranda.context.prompt import conversation_entry
from memoranda.errors import InputError
from memoranda.errors import shown as told
from memoranda.integrity import results_behind_calls
from memoranda.items import MemoryMetadata
from memoranda_mcp import addresses
from memoranda_mcp.graph import Graph
from memoranda_mcp.tools.memories import shown

if TYPE_CHECKING:
    from memoranda_mcp.desk import Desk

RECENT = 50
"""How many of the newest memories there are in the list of recent ones."""

MOST_SHOWN = 200
"""How many memories the text of a conversation shows at the most: its newest."""

JSON = "application/json"


class Content(NamedTuple):
    """The text of a resource and its media type."""

    text: str
    mime_type: str


def check_address(desk: Desk, uri: str) -> tuple[str, str]:
    """Return the kind and the name of a resource that a desk offers, there now or later. Raises InputError for others.

    A conversation other than the one that the server is bound to is never there, nor is the graph without the right.
    """
    place = addresses.parsed(uri)
    if place is None or (place[0] == "knowledge-graph" and not desk.rights.graph):
        raise InputError(f"There is no such resource here: {told(uri, text=True)}.", field="uri")
    if place[0] == "conversations":
        desk.within(place[1])
    return place


async def read_resource(desk: Desk, uri: str) -> Content | None:
    """Return what a resource holds now, or None if there is nothing at its address."""
    kind, name = check_address(desk, uri)
    if kind == "items":
        item = await desk.store.get(name)
        if item is None:
            return None
        return Content(json.dumps(shown(item).model_dump(mode="json"), ensure_ascii=False, indent=1), JSON)
    if kind == "knowledge-graph":
        return Content(json.dumps(await Graph(desk.graph_store).read(), ensure_ascii=False, indent=2), JSON)
    if kind == "recent":
        newest = [shown(item).model_dump(mode="json") for item in await desk.store.search(limit=RECENT)]
        return Content(json.dumps(newest, ensure_ascii=False, indent=1), JSON)
    said = await desk.store.window(metadata=desk.within(name), limit=MOST_SHOWN)
    if not said and not await desk.store.count(metadata=MemoryMetadata(session_id=name)):
        return None
    return Content("\n".join(conversation_entry(item) for item in results_behind_calls(said)), "text/plain")
