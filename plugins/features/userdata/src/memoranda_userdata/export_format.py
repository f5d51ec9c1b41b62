"""The export format: JSON Lines with a header, then an item per line, then a footer that seals them.

The header is ``{"memoranda": "export", "format": 1}`` and whatever else is useful, the footer ``{"memoranda":
"end", "count": …, "digest": …}``, and a deleted item stands in ``{"memoranda": "deleted", "item": …}``. A file with a
header and no footer was cut off; a file without either, just lines of items, is read too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from memoranda.errors import InputError
from memoranda.store import dump_item
from memoranda_commands.files import MARK, parsed

if TYPE_CHECKING:
    from memoranda.items import MemoryItem

FORMAT = 1


class Line(NamedTuple):
    """One item of a file: its line, its JSON object, and if it was deleted in the store it comes from."""

    number: int
    data: Any
    hidden: bool

    def lasting_id(self, derived_id: Callable[[str], str], *owner: str | None) -> str:
        """Return an id for an item that has none: the same whenever this line is imported for the same owner.

        ``derived_id`` is that of the store: in an encrypted one, the id confirms no guess of what the line says.
        """
        return lasting_id(derived_id, self.number, self.data, *(owner if any(owner) else ()))


def lasting_id(derived_id: Callable[[str], str], *parts: Any) -> str:
    """Return an id that is the same whenever a store makes it of the same values; ``derived_id`` is that of the store.

    In an encrypted store it confirms no guess of the values.
    """
    return derived_id(json.dumps(parts, sort_keys=True))


def line_of(item: MemoryItem, *, hidden: bool = False) -> str:
    """Return an item as one line."""
    fields = dump_item(item)
    return json.dumps(
        {MARK: "deleted", "item": fields} if hidden else fields, ensure_ascii=False, separators=(",", ":")
    )


def fingerprint(item: MemoryItem) -> bytes:
    """Return a hash of all fields of an item but its version, which each store counts for itself."""
    fields = dump_item(item)
    del fields["version"]
    text = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


class Digest:
    """A count and a hash over items in their order."""

    def __init__(self) -> None:
        self.count = 0
        self._hash = hashlib.sha256()

    def take(self, item: MemoryItem, *, hidden: bool = False) -> None:
        """Add the next item. The mark of a deleted item counts, too: a seal must not fit once it is removed."""
        self.count += 1
        self._hash.update(fingerprint(item) + (b"deleted" if hidden else b""))

    @property
    def text(self) -> str:
        """The hash so far."""
        return self._hash.hexdigest()


def header(**facts: Any) -> str:
    """Return the first line of an export."""
    return json.dumps({MARK: "export", "format": FORMAT, **facts}, ensure_ascii=False)


def footer(digest: Digest) -> str:
    """Return the last line of an export."""
    return json.dumps({MARK: "end", "count": digest.count, "digest": digest.text})


def read_lines(file: IO[str], name: str) -> Iterator[Line]:
    """Yield the items' lines; header and footer are checked and left out.

    Raises InputError, naming the line, for what is not a JSON object, a format of a later release, and a file with a
    header and no footer.
    """
    sealed: bool | None = None
    for number, text in enumerate(file, 1):
        if not text.strip():
            continue
        if sealed:
            raise InputError(f"{name}, line {number}: there is more after the end.", field="file")
        data = parsed(text, name, number)
        if not isinstance(data, dict):
            raise InputError(f"{name}, line {number}: an item is a JSON object.", field="file")
        mark = data[MARK] if is_marked(data) else None
        if mark == "export" and sealed is None:
            _check_format(data, name)
            sealed = False
        elif mark == "end" and sealed is False:
            sealed = True
        elif mark == "deleted":
            yield Line(number, data.get("item"), hidden=True)
        else:
            yield Line(number, data, hidden=False)
    if sealed is False:
        raise InputError(f"{name} has no last line: it was cut off. Export it again.", field="file")


def seal_of(file: IO[str]) -> dict[str, Any] | None:
    """Return the footer of a file that can be read twice, or None if it has none."""
    last = ""
    for line in file:
        last = line if line.strip() else last
    try:
        data = json.loads(last) if last else None
    except ValueError:
        return None
    return data if isinstance(data, dict) and data.get(MARK) == "end" else None


def is_marked(value: Any) -> bool:
    """Return True if a value is a header, a footer or a deleted item, rather than an item."""
    return isinstance(value, dict) and MARK in value and "content" not in value


def _check_format(data: dict[str, Any], name: str) -> None:
    found = data.get("format")
    if found != FORMAT:
        raise InputError(
            f"{name} is written in format {found!r} and this release reads {FORMAT}. Upgrade memoranda.", field="file"
        )
