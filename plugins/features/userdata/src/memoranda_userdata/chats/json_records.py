"""The values of a JSON or JSON Lines file, with the lines where they begin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from memoranda_commands.files import parsed

_BETWEEN = re.compile(r"[\s,]*")


class Record(NamedTuple):
    """One value of a file and the line where it begins."""

    line: int
    value: Any


def records(file: IO[str], name: str) -> Iterator[Record]:
    """Yield the values of the lines of a file, or those of the one list in it; any other document is one value.

    Raises InputError, naming the line, for what is not JSON.
    """
    file.seek(0)
    first = next((text for text in file if text.strip()), None)
    if first is None:
        return
    several = any(text.strip() for text in file) and _is_json(first)
    file.seek(0)
    if not several:
        yield from _of_document(file.read(), name)
        return
    for number, text in enumerate(file, 1):
        if text.strip():
            yield Record(number, parsed(text, name, number))


def _of_document(text: str, name: str) -> Iterator[Record]:
    value = parsed(text, name)
    begins = len(text) - len(text.lstrip())
    line = 1 + text.count("\n", 0, begins)
    if not isinstance(value, list):
        yield Record(line, value)
        return
    decoder, ends = json.JSONDecoder(), begins + 1
    for element in value:
        before, begins = begins, _BETWEEN.match(text, ends).end()  # type: ignore[union-attr]  # it matches anything
        line += text.count("\n", before, begins)
        ends = decoder.raw_decode(text, begins)[1]
        yield Record(line, element)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
