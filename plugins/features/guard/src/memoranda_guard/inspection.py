"""Text as it is inspected: folded, so that look-alikes and invisible characters hide nothing. Nothing stored changes.

Folding catches the cheap disguises: compatibility forms, accents, letters of other scripts that look Latin, characters
that take no space, and words written l e t t e r by letter. It does not catch paraphrase, other languages or encodings.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store.backend import fields_of

_LOOK_ALIKE = dict(
    zip(
        # Cyrillic, then Greek, then what else fonts draw like a Latin letter.
        "абвгдезікмнорстухцчшьѕјһԁԛԝөүғӏёαβγδεζηικμνοπρτυχωıɑɡɩʟᴀᴄᴅᴇɪᴊᴋᴍɴᴏᴘʀᴛᴜᴠᴡᴢσϲոսօհ",
        "abbrde3ikmhopctyxu4wbsjhdqwoyfleabydeznikuvonptuxwiagilacdeijkmnoprtuvwzocnuoh",
        strict=True,
    )
)
"""Letters, in lower case, and the Latin letter that each is read as. Small on purpose: the fence carries the weight."""

_BLANKS = "\u115f\u1160\u2800\u3164\uffa0"
_STRUCTURAL = frozenset({"tool_call_id", "also_answers", "sources", "compaction", "archives", "archived_by", "group"})
_LETTER_BY_LETTER = re.compile(r"(?<!\w)\w(?:[ .,_*|-]{1,2}\w(?!\w)){3,}")
_INVISIBLE = re.compile(
    "[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\U000e0000-\U000e0fff]"
)


class _Fold(dict[int, str]):
    """What each character is inspected as, for ``str.translate``; computed when it is first met."""

    def __missing__(self, code: int) -> str:
        character = chr(code)
        if character in _BLANKS:
            folded = " "
        elif unicodedata.category(character) in ("Cf", "Mn", "Me", "Co") or 0xE0000 <= code < 0xE1000:
            folded = ""
        else:
            parts = unicodedata.normalize("NFKD", unicodedata.normalize("NFKC", character).casefold())
            kept = [part for part in parts if unicodedata.category(part) != "Mn"]
            folded = "".join(_LOOK_ALIKE.get(part, part) for part in kept)
        self[code] = folded
        return folded


_fold = _Fold()


def folded(text: str) -> str:
    """Return a text as it is inspected; see the module."""
    return text.lower() if text.isascii() else text.translate(_fold)


def joined_letters(text: str) -> str:
    """Return a folded text with words that are written letter by letter put together."""
    return _LETTER_BY_LETTER.sub(lambda found: re.sub(r"\W|_", "", found[0]), text)


def places(text: str, pattern: re.Pattern[str]) -> list[tuple[int, int]]:
    """Return where in the original text the pattern matches what it is folded to."""
    if text.isascii():
        return [found.span() for found in pattern.finditer(text.lower()) if found[0]]
    origins = [at for at, character in enumerate(text) for _ in character.translate(_fold)]
    ends = [*origins, len(text)]
    return [(ends[found.start()], ends[found.end() - 1] + 1) for found in pattern.finditer(folded(text)) if found[0]]


def visible(text: str) -> str:
    """Return a text for a model, without characters that steer how it is shown, or that no reader can see.

    The joiners that scripts and emoji need stay.
    """
    return text if text.isascii() else _INVISIBLE.sub("", text)


def texts_of(item: MemoryItem) -> Iterator[str]:
    """Yield every text of an item that a model may be shown: content first, then names, fields, extra and payload."""
    yield item.content
    for name, value in _fields(item).items():
        yield from _strings(decoded(value) if name == "payload" and isinstance(value, str) else value)


def _fields(item: MemoryItem) -> dict[str, Any]:
    own = {name: getattr(item, name) for name in fields_of(type(item)).names} | (item.model_extra or {})
    kept = {name: value for name, value in own.items() if value and name not in _STRUCTURAL}
    return {"name": item.name, "extra": item.metadata.extra, "payload": item.payload, **kept}


def readings_of(item: MemoryItem) -> Iterator[str]:
    """Yield every text of an item, and what those of them that are JSON hold: it may write every letter as an escape.

    Tools answer in JSON, and the arguments of a call are some.
    """
    for text in texts_of(item):
        yield text
        inner = decoded(text)
        if inner is not text:
            yield from _strings(inner)


def decoded(text: str) -> Any:
    """Return what a JSON object, list or string holds; any other text as it is."""
    if text.lstrip()[:1] not in ("{", "[", '"'):
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _strings(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, str):
            yield each
        elif isinstance(each, dict):
            waiting += [part for key, inner in reversed(each.items()) for part in (inner, str(key))]
        elif isinstance(each, (list, tuple)):
            waiting += reversed(each)
