"""Files and folders as items: each path has one item, which is never removed and holds the current state.

The id of a path's item is made from the scope and the path, so that only one process can create a file. The state
before a change is stored as an archived item of its own, grouped by the change; see
:mod:`memoranda_anthropic.folder`. Searches find existing files like any other memory. Folders, removed files and
earlier states are archived, and not found.
"""

from __future__ import annotations

import unicodedata
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from anthropic.tools import ToolError

from memoranda.items import MemoryItem, MemoryMetadata, now_text
from memoranda_messages.sessions import DerivedIds

if TYPE_CHECKING:
    from memoranda.store import ScopedStore

ROOT = "/memories"
Parts = tuple[str, ...]

_DECODINGS = 4
"""How many layers of encoding are decoded to check a path; no honest mistake has more."""


def parts_of(path: Any) -> Parts:
    """Return the names that lead from ``/memories`` to a file; none for the folder itself.

    ``.`` and ``..`` are resolved. Raises ToolError for a path that does not start with ``/memories`` or that leads out
    of it, even if only after decoding. Such a path could reach nothing, since it is only a name in a store. It is
    refused all the same, since it is meant to reach something else.
    """
    if not isinstance(path, str):
        raise ToolError("A path is needed, as text that starts with /memories.")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise ToolError(f"Path must start with /memories, got: {path}")
    if "\0" in path:
        raise ToolError("A path holds no NUL characters.")
    parts = _resolved(path)
    if parts is None or _leads_out_when_decoded(path):
        raise ToolError(f"Path {path} would escape /memories directory")
    return parts


def path_of(parts: Parts) -> str:
    """Return the path of these names."""
    return "/".join([ROOT, *parts])


def _resolved(path: str) -> Parts | None:
    """Return the names of a path, or None if it leads out of the folder."""
    names: list[str] = []
    for name in path[len(ROOT) :].split("/"):
        if name == "..":
            if not names:
                return None
            names.pop()
        elif name not in ("", "."):
            names.append(name)
    return tuple(names)


def _leads_out_when_decoded(path: str) -> bool:
    seen = path
    for _ in range(_DECODINGS):
        decoded = unicodedata.normalize("NFKC", unquote(seen)).replace("\\", "/")
        if decoded == seen:
            return False
        seen = decoded
        if ".." in seen.split("/") or "\0" in seen:
            return True
    return "%" in seen and unquote(seen) != seen


State = Literal["file", "folder", "none"]

FILE = "memory-file"
FOLDER = "memory-folder"
PAST = "memory-past"
PLACE = "anthropic"
"""The first element of the namespaces of these items, below that of the scope."""

_KINDS: dict[State, str] = {"file": FILE, "folder": FOLDER, "none": PAST}


@dataclass(frozen=True, slots=True)
class Node:
    """The state of a path: a file with its text, a folder, or nothing. ``version`` is that of its item."""

    parts: Parts
    state: State
    text: str = ""
    version: int = 0
    change: str = ""
    """The id of the change that led to this state."""

    @property
    def path(self) -> str:
        """The whole path."""
        return path_of(self.parts)

    @property
    def name(self) -> str:
        """The last name of the path."""
        return self.parts[-1] if self.parts else ""

    def becomes(self, state: State, text: str = "", change: str | None = None) -> Step:
        """Return the step to another state; to return to an earlier state, give the ``change`` that had led to it."""
        return Step(self, state, text, change)


@dataclass(frozen=True, slots=True)
class Step:
    """What a change does to one path."""

    before: Node
    state: State
    text: str = ""
    change: str | None = None

    @property
    def is_touch(self) -> bool:
        """True if a folder stays as it is, and is only written so that no other process removes it meanwhile."""
        return self.before.state == self.state == "folder"


class NodeCodec:
    """Converts the nodes of one scope to items and back."""

    def __init__(self, store: ScopedStore) -> None:
        self._namespace = store.scope.namespace
        self._place = (*self._namespace, PLACE)
        self._ids = DerivedIds(store, PLACE)

    def item_id(self, parts: Parts) -> str:
        """Return the id of a path's item. Different scopes of one user have different items for the same path."""
        return f"memory-file-{self._ids.id_of(self._namespace, parts)}"

    def below(self, parts: Parts) -> MemoryMetadata:
        """Return the filter for the contents of a folder, at any depth."""
        return MemoryMetadata(namespace=(*self._place, "files", *parts))

    def past(self) -> MemoryMetadata:
        """Return the filter for earlier states."""
        return MemoryMetadata(namespace=(*self._place, "history"))

    def node(self, item: MemoryItem) -> Node:
        """Return the node of an item."""
        extra = item.metadata.extra
        state: State = "file" if item.memory_type == FILE else "folder" if item.memory_type == FOLDER else "none"
        return Node(tuple(extra["parts"]), state, item.content, item.version, extra.get("change", ""))

    def items(self, steps: list[Step], change: str, operation: str, undoes: str | None = None) -> list[MemoryItem]:
        """Return the items to write for a change: the new state of each path, and the earlier one."""
        at = now_text()
        items = []
        for order, step in enumerate(steps):
            was = f"{change}-{order}"
            made_by = step.before.change if step.is_touch else change if step.change is None else step.change
            items.append(self._head(step, made_by, was, at))
            if not step.is_touch:
                about = {"change": change, "operation": operation, "after": made_by}
                items.append(self._past(step.before, was, about if undoes is None else about | {"undoes": undoes}, at))
        return items

    def _head(self, step: Step, change: str, was: str, at: str) -> MemoryItem:
        parts = step.before.parts
        hidden_by = None
        if step.state == "folder":
            hidden_by = self.item_id(parts[:-1])
        elif step.state == "none":
            hidden_by = was
        return MemoryItem(
            id=self.item_id(parts),
            content=step.text,
            memory_type=_KINDS[step.state],
            name=path_of(parts)[:200],
            metadata=MemoryMetadata(
                namespace=(*self._place, "files", *parts[:-1]), extra={"parts": list(parts), "change": change}
            ),
            archived_by=hidden_by,
            version=step.before.version,
            created_at=at,
        )

    def _past(self, before: Node, item_id: str, about: dict[str, str], at: str) -> MemoryItem:
        extra = {"parts": list(before.parts), "was": before.state, "before": before.change, **about}
        return MemoryItem(
            id=item_id,
            content=before.text,
            memory_type=PAST,
            metadata=MemoryMetadata(namespace=(*self._place, "history"), extra=extra),
            archived_by=self.item_id(before.parts),
            created_at=at,
        )


def new_change() -> str:
    """Return the id of a new change."""
    return f"memory-change-{uuid.uuid4().hex}"
