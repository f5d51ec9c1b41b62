"""Paths of memory files: how they are resolved, and which are refused because they lead out of ``/memories``."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import unquote

from anthropic.tools import ToolError

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
