"""Files and folders as items, the edits of their texts, and the answers that the memory tool's contract prescribes.

Each path has one item, which is never removed and holds the current state.
The id of a path's item is made from the scope and the path, so that only one process can create a file. The state
before a change is stored as an archived item of its own, grouped by the change; see
:mod:`memoranda_anthropic.folder`. Searches find existing files like any other memory. Folders, removed files and
earlier states are archived, and not found.
"""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Sequence
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


MAX_LINES = 999_999
_WIDTH = len(str(MAX_LINES))
_FOLDER_SIZE = 4096
_UNITS = "BKMG"
_AROUND = 2
"""How many lines are shown on either side of a change."""


def numbered(path: str, text: str, view_range: Any = None) -> str:
    """Return a text, or a range of its lines, with line numbers; an end of -1 is the last line."""
    lines = text.split("\n")
    if len(lines) > MAX_LINES:
        raise ToolError(f"File {path} exceeds maximum line limit of 999,999 lines.")
    first = 0
    if isinstance(view_range, list) and len(view_range) == 2:
        if not all(isinstance(end, int) for end in view_range):
            raise ToolError("`view_range` holds two numbers of lines: the first and the last; -1 is the end.")
        first = max(1, view_range[0]) - 1
        last = len(lines) if view_range[1] == -1 else view_range[1]
        lines = lines[first:last]
    return f"Here's the content of {path} with line numbers:\n" + "\n".join(_with_numbers(lines, first))


def listing(path: str, parts: Parts, below: Sequence[Node]) -> str:
    """Return the contents of a folder, two levels deep, without hidden files."""
    listed = {
        node.parts[len(parts) :]: node
        for node in below
        if len(node.parts) <= len(parts) + 2 and not any(name.startswith(".") for name in node.parts[len(parts) :])
    }
    lines = [f"{size(_FOLDER_SIZE)}\t{path}"]
    for names in sorted(listed):
        node = listed[names]
        folder = node.state == "folder"
        taken = size(_FOLDER_SIZE if folder else len(node.text.encode("utf-8", "surrogatepass")))
        lines.append(f"{taken}\t{path}/{'/'.join(names)}{'/' if folder else ''}")
    header = f"Here're the files and directories up to 2 levels deep in {path}, excluding hidden items:"
    return "\n".join([header, *lines])


def replaced(path: str, text: str, old: str, new: str) -> tuple[str, str]:
    """Return the text with ``new`` instead of its one ``old``, and the answer to the model."""
    count = text.count(old)
    if count == 0:
        raise ToolError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    if count > 1:
        lines = ", ".join(map(str, _lines_with(text, old)))
        raise ToolError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    line = text.count("\n", 0, text.find(old))
    changed = text.replace(old, new)
    lines_now = changed.split("\n")
    first = max(0, line - _AROUND)
    snippet = _with_numbers(lines_now[first : line + _AROUND + 1], first)
    message = "The memory file has been edited. Here is the snippet showing the change (with line numbers):"
    return changed, "\n".join([message, *snippet])


def inserted(text: str, line: int, new: str) -> str:
    """Return the text with further lines after the line of this number; 0 is the beginning."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if not 0 <= line <= len(lines):
        raise ToolError(f"Invalid `insert_line` parameter: {line}. It should be within the range [0, {len(lines)}].")
    lines.insert(line, new.rstrip("\n"))
    joined = "\n".join(lines)
    return joined if joined.endswith("\n") else f"{joined}\n"


def size(count: int) -> str:
    """Return a number of bytes as people read it."""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    scaled = count / 1024**power
    return f"{int(scaled) if scaled == int(scaled) else format(scaled, '.1f')}{_UNITS[power]}"


def _with_numbers(lines: Sequence[str], first: int) -> list[str]:
    return [f"{str(number).rjust(_WIDTH)}\t{line}" for number, line in enumerate(lines, first + 1)]


def _lines_with(text: str, wanted: str) -> list[int]:
    """Return the numbers of the lines in which a text begins, overlapping ones too, in one pass."""
    found, line, at, counted = [], 1, text.find(wanted), 0
    while at != -1:
        line += text.count("\n", counted, at)
        counted = at
        found.append(line)
        at = text.find(wanted, at + 1)
    return found
