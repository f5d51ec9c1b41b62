"""The export format, JSON Lines with a seal, and writing it; items on their way into a store.

The header is ``{"memoranda": "export", "format": 1}`` and whatever else is useful, the footer ``{"memoranda":
"end", "count": …, "digest": …}``, and a deleted item stands in ``{"memoranda": "deleted", "item": …}``. A file with a
header and no footer was cut off; a file without either, just lines of items, is read too.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from memoranda.errors import InputError
from memoranda.items import BranchMemory
from memoranda.store import dump_item
from memoranda.store.lineage import hidden_ids
from memoranda_commands.files import MARK, parsed, whole_file

if TYPE_CHECKING:
    from memoranda.items import MemoryItem, MemoryMetadata
    from memoranda.store import Moment, Store

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


@dataclass(frozen=True, slots=True)
class Exported:
    """How many items an export has, and the digest that its last line seals them with."""

    count: int
    digest: str


async def export(
    store: Store,
    target: str | Path | IO[str],
    *,
    metadata: MemoryMetadata | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: Mapping[str, Any] | None = None,
    deleted: bool = False,
    advance: Callable[[int], None] = lambda number: None,
) -> Exported:
    """Write items to a JSON Lines file in the order of their adding, and return their number and digest.

    ``target`` is a path or an open text file. A path gets the file once it is complete, readable by its owner only;
    what was there is replaced. Archived items are included, deleted ones with ``deleted=True``. The filters mean
    what they mean in ``store.search``. ``advance`` is called with the number of items just written.

    :func:`import_` and the command ``memoranda import`` read the file into any store. Raises FileError, naming the
    path, if it cannot be written.
    """
    digest, written = Digest(), 0
    opened = whole_file(Path(target)) if isinstance(target, (str, Path)) else nullcontext(target)
    with opened as output:
        async for line in export_lines(
            store, store.label, digest, metadata=metadata, since=since, until=until, where=where, deleted=deleted
        ):
            output.write(line)
            advance(digest.count - written)
            written = digest.count
    return Exported(digest.count, digest.text)


async def export_lines(
    store: Store,
    name: str,
    digest: Digest,
    *,
    metadata: MemoryMetadata | None = None,
    deleted: bool = False,
    **wanted: Any,
) -> AsyncIterator[str]:
    """Yield the lines of an export of a store of this name: a header, the wanted items as they were added, and a seal.

    ``digest`` counts and hashes the items on the way. ``wanted`` are further filters of ``store.scan``.
    """
    hidden = await hidden_ids(store, metadata) if deleted else set()
    yield header(store=name) + "\n"
    async for item in store.scan(metadata=metadata, include_deleted=deleted, order="added", **wanted):
        digest.take(item, hidden=item.id in hidden)
        yield line_of(item, hidden=item.id in hidden) + "\n"
    yield footer(digest) + "\n"


TIMES = ("created_at", "updated_at")


class OnConflict(StrEnum):
    """What to do with an id that another item has in the store."""

    FAIL = "fail"
    SKIP = "skip"
    OVERWRITE = "overwrite"


class Stamp(NamedTuple):
    """The user and the session that imported items are for, if the command names them."""

    user: str | None = None
    session: str | None = None


class Incoming(NamedTuple):
    """An item to store, and if it was deleted where it comes from.

    ``undated`` are the times that were not given. If the item is in the store already, the store's times are used.
    """

    item: MemoryItem
    hidden: bool = False
    undated: tuple[str, ...] = ()

    def dated_as(self, there: StoredState | None) -> Incoming:
        """Return this with the times of what the store has, where none were given."""
        if there is None or not self.undated:
            return self
        times = {name: there.times[name] for name in self.undated}
        return self._replace(item=self.item.model_copy(update=times))


class StoredState(NamedTuple):
    """What a store has under an id: the item's fingerprint and times, if it is hidden, and when it expires."""

    print: bytes
    hidden: bool
    times: dict[str, str]
    expires_at: str | None

    @classmethod
    def of(cls, item: MemoryItem, *, hidden: bool) -> StoredState:
        """Return how an item stands in a store. Of the record of a branch, that is what the store did not work out."""
        if isinstance(item, BranchMemory):
            kept = ("id", "metadata", "archived_by", *TIMES)
            item = BranchMemory(**{name: getattr(item, name) for name in kept})
        return cls(fingerprint(item), hidden, {name: getattr(item, name) for name in TIMES}, item.expires_at)


def expires(item: MemoryItem) -> bool:
    """Return True if the item has a lifetime, which the store must support."""
    return item.ttl is not None or item.expires_at is not None


def is_over(expires_at: str | None, now: str) -> bool:
    """Return True if an item with this expiry has expired by now."""
    return expires_at is not None and expires_at <= now


def state_of(incoming: Incoming) -> StoredState:
    """Return how the store has the item once it has arrived."""
    return StoredState.of(incoming.item, hidden=incoming.hidden)
