"""A conversation as a model reads it for a summary, and its answer: the entries, and the sources that each names.

The conversation is labelled, fenced, and impossible to forge from inside. Every entry is one line that starts with a
label; further lines of its text are indented behind a bar, so that no content can look like an entry of its own. The
fence carries a mark that is computed from what it encloses, so that no content can close it.

Models wrap answers in code fences, number their lines, answer in JSON or tables, cite in their own way and make up
labels. All of that is read here; a source that was not given is never taken over.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.errors import SummaryError
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


MAX_ENTRIES = 500
MAX_ENTRY_LENGTH = 2_000

_NOTHING = re.compile(
    r"(?:none|nothing(?: found)?|n a|no (?:new )?(?:facts?|traits?|profiles?|information)(?: found)?)"
)
_PREAMBLE = re.compile(
    r"(?:sure|certainly|of course|okay|absolutely|here (?:is|are)|here's|below (?:is|are))\b", re.IGNORECASE
)
_BULLET = re.compile(r"\s*(?:>\s*)?(?:(?:[-*+•‣◦–—]|\(?\d{1,4}[.):])\s+)?(?:\[[ xX]\]\s+)?")
_EMPHASIS = re.compile(r"(?<!\w)\*\*([^\s*](?:[^*]*[^\s*])?)\*\*(?!\w)|`(\[[^`\]]*\])`")
_BRACKETED = re.compile(r"\[([^\[\]]{1,400})\]|\(([^()]{1,400})\)")
_CITING_WORD = re.compile(r"(?:sources?|ids?|refs?|evidence|labels?|from|see)\s*[:=#]?\s*", re.IGNORECASE)
_TRAILING = re.compile(r"(?:\s[—–-]\s+|\t|[\s,;.](?:sources?|ids?)\s*[:=]\s*)([^\t—–]{1,200})$", re.IGNORECASE)
_LEADING = re.compile(r"(\S{1,64}?)\s*(?::|\s[-–—])\s+")
_SEPARATORS = re.compile(r"[\s,;&/]+|\band\b")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ]\S*)?|\d{1,2}:\d{2}(?::\d{2})?|UTC", re.IGNORECASE)
_ID_LIKE = re.compile(r"[0-9a-f]{8}-?[0-9a-f-]{4,40}", re.IGNORECASE)
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

_TEXT_KEYS = ("fact", "text", "content", "statement", "summary", "value")
_SOURCE_KEYS = ("sources", "source", "source_ids", "source_id", "ids", "id", "labels", "label", "evidence")


@dataclass(frozen=True, slots=True)
class Entry:
    """One statement of an answer, without its citations.

    ``sources`` are the ids that it named and that were given, oldest first. ``forged`` says that it named some, and
    none of them was given. ``fields`` are the fields of an entry that came as a JSON object.
    """

    text: str
    sources: list[str] = field(default_factory=list)
    forged: bool = False
    fields: Mapping[str, Any] = field(default_factory=dict)


def cleaned(answer: str) -> str:
    """Return the answer's text without a fence around it, a preamble before it, and what no store can hold."""
    lines = _UNSTORABLE.sub("\ufffd", answer).strip().splitlines()
    if len(lines) > 1 and _PREAMBLE.match(lines[0]) and lines[0].rstrip().endswith((":", ".", "!")):
        lines = "\n".join(lines[1:]).strip().splitlines()
    if lines and lines[0].startswith("```"):
        # Whatever follows the last fence is a closing remark.
        closing = max(position for position, line in enumerate(lines) if line.lstrip().startswith("```"))
        lines = lines[1 : closing or len(lines)]
    return "\n".join(line.rstrip() for line in lines).strip()


def normalised(text: str) -> str:
    """Normalise a statement for comparison: case, spacing, punctuation variants and the final full stop."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    return " ".join(text.split()).strip(" .!;,-–—\"'")


def entries(answer: str, transcript: Transcript) -> list[Entry]:
    """Return the statements of an answer in their order; none when it says that there are none.

    As soon as one entry names a source, those that name none are chatter around it and are left out. When none does,
    the model ignored the form: each line is then an entry that the whole transcript is the source of. An entry that
    names only sources that were not given is never returned. Raises SummaryError when nothing else is there.
    """
    text = cleaned(answer)
    if _says_nothing(text):
        return []
    found = [entry for entry in _read(text, transcript) if _says_something(entry.text)]
    sourced = [entry for entry in found if entry.sources]
    if sourced:
        return sourced[:MAX_ENTRIES]
    plain = [
        Entry(entry.text, transcript.sources, fields=entry.fields)
        for entry in found
        if not entry.forged and not entry.text.endswith(":")
    ]
    if not plain:
        raise SummaryError("The answer of the model names no source that it was given, or holds no statement.")
    return plain[:MAX_ENTRIES]


def _says_nothing(text: str) -> bool:
    # Only short texts are looked at, and without repetition, so that no answer takes long to be understood.
    if text in ("[]", "{}"):
        return True
    return len(text) <= 60 and _NOTHING.fullmatch(re.sub(r"[\W_]+", " ", text).strip().casefold()) is not None


def _says_something(text: str) -> bool:
    return re.search(r"\w", text) is not None and not _says_nothing(text)


def _read(text: str, transcript: Transcript) -> Iterator[Entry]:
    values = _json_values(text)
    if values is None:
        yield from _read_lines(text.splitlines(), transcript)
        return
    for value in values:
        if isinstance(value, Mapping):
            yield _from_object(value, transcript)
        elif isinstance(value, str):
            yield _from_line(value, transcript)


def _json_values(text: str) -> list[Any] | None:
    """Return the elements of an answer that is a JSON list, or an object with one in it; None if it is not JSON."""
    start, end = text.find("[{"), text.rfind("]")
    for candidate in (text, text[start : end + 1] if 0 <= start < end else ""):
        if candidate[:1] in ("[", "{"):
            try:
                value = json.loads(candidate)
            except (ValueError, RecursionError):
                continue
            if isinstance(value, list):
                return value
            for inner in value.values():
                if isinstance(inner, list) and any(isinstance(element, Mapping) for element in inner):
                    return inner
            return [value]
    return None


def _read_lines(lines: Iterable[str], transcript: Transcript) -> Iterator[Entry]:
    """Yield an entry for each line; an indented line without a bullet belongs to the one before it."""
    pending = ""
    for line in lines:
        if not line.strip() or line.lstrip().startswith(("```", "#")) or not line.strip("|-: \t"):
            continue
        if pending and line[:2].isspace() and not _BULLET.match(line)[0].strip():  # type: ignore[index]  # it can match nothing, so it always matches
            pending += " " + line.strip()
            continue
        if pending:
            yield _from_line(pending, transcript)
        pending = line
    if pending:
        yield _from_line(pending, transcript)


def _from_line(line: str, transcript: Transcript) -> Entry:
    stripped = line.strip().rstrip(",")
    if stripped.startswith("{") and stripped.endswith("}"):
        try:
            value = json.loads(stripped)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict):
            return _from_object(value, transcript)
    return _without_citations(line[_BULLET.match(line).end() :], transcript)  # type: ignore[union-attr]  # as above


def _from_object(value: Mapping[str, Any], transcript: Transcript) -> Entry:
    named: list[str] = []
    for key in _SOURCE_KEYS:
        given = value.get(key)
        for element in given if isinstance(given, list) else [given]:
            if isinstance(element, str):
                named += _named(element.strip("[]() "), transcript) or [element]
    texts = [value[key] for key in _TEXT_KEYS if isinstance(value.get(key), str)]
    entry = _without_citations(texts[0] if texts else "", transcript)
    known = _known(named, transcript)
    sources = _in_order({*known, *entry.sources}, transcript)
    return Entry(entry.text, sources, forged=not sources and (bool(named) or entry.forged), fields=dict(value))


def _without_citations(text: str, transcript: Transcript) -> Entry:
    """Take the citations out of one statement, wherever they stand."""
    text = _EMPHASIS.sub(r"\1\2", text[: 2 * MAX_ENTRY_LENGTH]).strip()
    named: list[str] = []

    def taken(match: re.Match[str]) -> str:
        inner = match[1] if match[1] is not None else match[2]
        cited = _named(inner, transcript) or _made_up(match)
        named.extend(cited)
        return " " if cited else match[0]

    if "|" in text:
        cells = [cell.strip() for cell in text.strip("| ").split("|")]
        cited = [_named(cell.strip("[]() "), transcript) for cell in cells]
        named += [name for names in cited for name in names]
        text = " | ".join(cell for cell, names in zip(cells, cited, strict=True) if cell and not names)
    text = _BRACKETED.sub(taken, text)
    text, trailing = _taken_off(_TRAILING.search(text, max(len(text) - 250, 0)), text, transcript)
    text, leading = _taken_off(_LEADING.match(text), text, transcript)
    named += trailing + leading
    ending = ":" if text.rstrip().endswith(":") else ""  # This distinguishes a heading from a statement.
    text = re.sub(r"\s+([.,;:!?])", r"\1", " ".join(text.split())).strip(" ,;:|—–-") + ending
    if len(text) > MAX_ENTRY_LENGTH:
        text = text[: MAX_ENTRY_LENGTH - 1].rstrip() + "…"
    sources = _in_order(_known(named, transcript), transcript)
    return Entry(text, sources, forged=bool(named) and not sources)


def _taken_off(found: re.Match[str] | None, text: str, transcript: Transcript) -> tuple[str, list[str]]:
    """Return the text without a match that names sources, and the names."""
    named = _named(found[1].strip(" ().,;"), transcript) if found else []
    return (text[: found.start()] + text[found.end() :], named) if found and named else (text, [])


def _named(inner: str, transcript: Transcript) -> list[str]:
    """Return the names in a text that consists of source names; otherwise none."""
    inner = inner.strip()
    if transcript.source(inner) is not None:
        return [inner]
    start = _CITING_WORD.match(inner)
    tokens = [token for token in _SEPARATORS.split(inner[start.end() :] if start else inner) if token]
    names: list[str] = []
    for token in tokens:
        between = _range(token.strip("[]#\"'"), transcript)
        if not between and not (names and _TIME.fullmatch(token)):
            return []
        names += between
    return names


def _range(token: str, transcript: Transcript) -> list[str]:
    """Return the names that one token stands for: itself, or every label of a range; nothing if it is not a name."""
    label = rf"{transcript.prefix}(\d{{1,6}})"
    if transcript.source(token) is not None or re.fullmatch(label, token, re.IGNORECASE):
        return [token]
    ends = re.fullmatch(rf"{label}[-–—](?:{transcript.prefix})?(\d{{1,6}})", token, re.IGNORECASE)
    if ends is None:
        return []
    last = min(int(ends[2]), len(transcript.labels))
    return [f"{transcript.prefix}{number}" for number in range(int(ends[1]), last + 1)] or [token]


def _made_up(match: re.Match[str]) -> list[str]:
    """Return the name in square brackets at either end of a line that looks like a label or an id but is not one."""
    inner, at_an_end = match[1], match.start() == 0 or match.end() >= len(match.string.rstrip(" ."))
    if inner is None or not at_an_end or not (re.fullmatch(r"\S*\d\S*", inner) or _ID_LIKE.fullmatch(inner)):
        return []
    return [inner]


def _known(named: Iterable[str], transcript: Transcript) -> set[str]:
    return {source for name in named if (source := transcript.source(name)) is not None}


def _in_order(sources: set[str], transcript: Transcript) -> list[str]:
    return [source for source in transcript.sources if source in sources]
