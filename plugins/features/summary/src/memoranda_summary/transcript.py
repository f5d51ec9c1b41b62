"""A conversation as a model reads it for a summary: labelled, fenced, and impossible to forge from inside.

Every entry is one line that starts with a label; further lines of its text are indented behind a bar, so that no
content can look like an entry of its own. The fence carries a mark that is computed from what it encloses, so that no
content can close it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from memoranda.items import MemoryItem
from memoranda.speakers import plain_name, speaker
from memoranda.tool_calls import call_arguments, call_name

_CONTINUED = "\n    | "
_PREFIXES = ("msg", "turn", "entry", "line")


@dataclass(frozen=True, slots=True)
class Transcript:
    """Items as fenced text, and the label that each one has in it.

    ``text`` is the fence and everything in it; ``mark`` is what both ends of the fence carry. ``labels`` gives the id
    behind each label; a label is ``prefix`` and a number from 1 on.
    """

    items: tuple[MemoryItem, ...]
    prefix: str
    labels: Mapping[str, str]
    mark: str
    text: str

    @property
    def sources(self) -> list[str]:
        """The ids of all items, oldest first, each once."""
        return list(dict.fromkeys(item.id for item in self.items))

    def source(self, named: str) -> str | None:
        """Return the id that a label or an id in an answer stands for, or None if no such item was given."""
        if named in self.labels:
            return self.labels[named]
        if named.lower() in self.labels:
            return self.labels[named.lower()]
        return named if named in self.labels.values() else None


def transcribe(items: Sequence[MemoryItem]) -> Transcript:
    """Return the transcript of items given oldest first."""
    prefix = _free_prefix({item.id for item in items})
    labels = {f"{prefix}{position}": item.id for position, item in enumerate(items, start=1)}
    body = "\n".join(_entry(label, item) for label, item in zip(labels, items, strict=True))
    mark = _mark(body)
    return Transcript(tuple(items), prefix, labels, mark, f"<transcript {mark}>\n{body}\n</transcript {mark}>")


def _free_prefix(ids: set[str]) -> str:
    """Return a word such that no label can be mistaken for an item's own id."""
    for prefix in _PREFIXES:
        if not any(re.fullmatch(rf"{prefix}\d+", item_id, re.IGNORECASE) for item_id in ids):
            return prefix
    return _PREFIXES[0] + _mark("".join(sorted(ids)))[:8] + "x"


def _mark(body: str) -> str:
    mark = hashlib.sha256(body.encode(errors="surrogatepass")).hexdigest()[:16]
    while mark in body:
        mark = hashlib.sha256(mark.encode()).hexdigest()[:16]
    return mark


def _entry(label: str, item: MemoryItem) -> str:
    moment = item.created_at[:16].replace("T", " ")
    failed = " error" if getattr(item, "is_error", False) else ""
    return f"[{label} {moment}] {speaker(item)}{failed}: {_CONTINUED.join(_lines(item))}"


def _lines(item: MemoryItem) -> Iterator[str]:
    lines = item.content.splitlines()
    yield lines[0] if lines else ""
    yield from lines[1:]
    if item.memory_type == "ai":
        for call in getattr(item, "tool_calls", None) or ():
            arguments = " ".join(call_arguments(call).splitlines())
            yield f"(calls {plain_name(call_name(call))} with {arguments})"
