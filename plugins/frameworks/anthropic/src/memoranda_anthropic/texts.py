"""The answers of the memory tool, in the form that its contract prescribes, and the edits of a text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anthropic.tools import ToolError

from memoranda_anthropic.nodes import Node, Parts

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
