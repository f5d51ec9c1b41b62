"""The addresses of resources: ``memory://items/ID``, ``memory://conversations/NAME``, ``memory://recent``; a graph's is
``memory://knowledge-graph``."""

from __future__ import annotations

from urllib.parse import quote, unquote

RECENT = "memory://recent"
GRAPH = "memory://knowledge-graph"
ITEM = "memory://items/{id}"
CONVERSATION = "memory://conversations/{conversation}"

_KINDS = ("items", "conversations")


def address(kind: str, name: str) -> str:
    """Return the address of an item or a conversation; whatever its name holds, it is one element of a path."""
    return f"memory://{kind}/{quote(name, safe='')}"


def parsed(uri: str) -> tuple[str, str] | None:
    """Return the kind and the name that an address stands for, or None if it is none of ours."""
    if uri == RECENT:
        return "recent", ""
    if uri == GRAPH:
        return "knowledge-graph", ""
    scheme, slashes, path = uri.partition("://")
    kind, slash, quoted = path.partition("/")
    if scheme != "memory" or not slashes or kind not in _KINDS or not slash or not quoted or "/" in quoted:
        return None
    try:
        name = unquote(quoted, errors="strict")
    except UnicodeDecodeError:
        return None
    return kind, name
