"""Read an export back into a store: the whole file is checked before anything of it is stored."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal

from memoranda.errors import CorruptStoreError, InputError, StoreError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Capability, dump_item, load_item
from memoranda.store.backend import check_item
from memoranda_commands.files import FileError, MissingFileError
from memoranda_userdata.export_format import (
    TIMES,
    Digest,
    Incoming,
    Line,
    OnConflict,
    Stamp,
    expires,
    read_lines,
    seal_of,
)
from memoranda_userdata.transfer import BATCH, Arrivals, Transfer, TransferCounts

if TYPE_CHECKING:
    from memoranda.store import Store

Advance = Callable[[int], None]


async def import_(
    store: Store,
    source: str | Path | IO[str],
    *,
    user_id: str | None = None,
    session_id: str | None = None,
    on_conflict: Literal["fail", "skip", "overwrite"] = "fail",
) -> TransferCounts:
    """Store the items of an export, and return how many were added, unchanged and so on.

    ``source`` is a path, or a text file that can be read twice. The whole file is checked first; if a line is not an
    item, the error names it and nothing is stored. Items that the store has already, equal, are left alone, so the same
    call continues an import that was interrupted. Deleted items arrive deleted. In the end every item is looked up
    and compared.

    ``user_id`` and ``session_id`` are set on items that have none. ``on_conflict`` decides about an id that another
    item has in the store.

    Raises InputError for a line that is not an item, CorruptStoreError for a file that was changed after its export,
    ConflictError for a conflict with ``on_conflict="fail"``, UnsupportedError for an item that the store cannot
    hold, and FileError for a file that cannot be read.
    """
    transfer = Transfer(store, OnConflict(on_conflict), TransferCounts())
    with _opened(source) as (text, name):
        file = ItemFile(text, name, Stamp(user_id, session_id))
        await transfer.begin()
        await file.check(transfer, transfer.check)
        await file.put(transfer)
    return transfer.counts


@contextmanager
def _opened(source: str | Path | IO[str]) -> Iterator[tuple[IO[str], str]]:
    if not isinstance(source, (str, Path)):
        yield source, str(getattr(source, "name", "the file"))
        return
    with open_binary(source) as binary, text_of(binary, str(source)) as text:
        yield text, str(source)


def open_binary(path: str | Path) -> IO[bytes]:
    """Open a file. Raises FileError if it cannot be read."""
    try:
        return Path(path).open("rb")
    except OSError as error:
        kind = MissingFileError if isinstance(error, FileNotFoundError) else FileError
        raise kind(f"{path} cannot be read: {error.strerror}.") from error


@contextmanager
def text_of(binary: IO[bytes], name: str) -> Iterator[IO[str]]:
    """Give the text of a file. Raises InputError, from whatever reads it in the block, if it is not UTF-8."""
    with io.TextIOWrapper(binary, encoding="utf-8-sig", newline="\n") as text:
        try:
            yield text
        except UnicodeDecodeError as error:
            raise InputError(
                f"{name} is not UTF-8 text ({error.reason} at byte {error.start}).", field="file"
            ) from error


def _ignore(number: int) -> None:
    """Report no progress."""


@dataclass(slots=True)
class ItemFile:
    """A file of items: its text, its name for messages, and whom its items are for."""

    text: IO[str]
    name: str
    stamp: Stamp

    def items(self, store: Store) -> Iterator[tuple[int, Incoming]]:
        """Yield the items with their lines, as they stand in the file."""
        self.text.seek(0)
        for line in read_lines(self.text, self.name):
            yield line.number, item_of(line, self.name, store, self.stamp)

    def seal(self) -> dict[str, Any] | None:
        """Return the footer of the file, or None if it has none."""
        self.text.seek(0)
        return seal_of(self.text)

    def batches(self, store: Store, digest: Digest | None = None) -> Iterator[list[Incoming]]:
        """Yield what the store is to have, as many items at once as are written in one step.

        ``digest`` takes the items as they stand in the file.
        """
        batch: list[Incoming] = []
        for line, found in self.items(store):
            incoming = stamped(found, self.stamp, f"{self.name}, line {line}")
            if digest is not None:
                digest.take(found.item, hidden=found.hidden)
            _check_supported(incoming, f"{self.name}, line {line}", store)
            batch.append(incoming)
            if len(batch) == BATCH:
                yield batch
                batch = []
        if batch:
            yield batch

    async def check(
        self, transfer: Transfer, look: Callable[[list[Incoming]], Awaitable[None]], advance: Advance = _ignore
    ) -> int:
        """Read the whole file without storing anything, call ``look`` with each batch, and return the number of items.

        Raises CorruptStoreError if the items are not those that the footer seals.
        """
        digest = Digest()
        for batch in self.batches(transfer.store, digest):
            await look(batch)
            advance(len(batch))
            await asyncio.sleep(0)  # This lets Ctrl-C through.
        seal = self.seal()
        if seal is not None and (seal.get("count"), seal.get("digest")) != (digest.count, digest.text):
            raise CorruptStoreError(
                f"{self.name} was changed or damaged: it does not hold the {seal.get('count')} items that its last "
                f"line seals. Remove its first and last line to import it as it is."
            )
        return digest.count

    async def put(self, transfer: Transfer, advance: Advance = _ignore) -> None:
        """Store all items, then look each of them up. Raises StoreError if one is not in the store as it should be."""
        arrivals = Arrivals()
        for batch in self.batches(transfer.store):
            arrivals.take(await transfer.put(batch))
            advance(len(batch))
        missing = await transfer.missing(arrivals)
        if missing:
            raise StoreError(f"{missing:,} items are not in the store as they are in {self.name}. Import it again.")


def _check_supported(incoming: Incoming, place: str, store: Store) -> None:
    if incoming.hidden and Capability.ADD_DELETED not in store.capabilities:
        raise UnsupportedError(store.label, "deleted items", remedy=f"{place} is one; export without them.")
    if expires(incoming.item) and Capability.TTL not in store.capabilities:
        remedy = f"{place} is one; import it into a store that does."
        raise UnsupportedError(store.label, "items that expire", remedy=remedy)
    if incoming.item.memory_type == "revision" and store.keeps_versions:
        # It could not be looked up again, and would say at once what an item was.
        remedy = f"{place} is one; import it into a store that is opened without revisions."
        raise UnsupportedError(store.label, "earlier versions from a file", remedy=remedy)


_WRITTEN = frozenset(dump_item(MemoryItem(content="")))
"""The fields that every line of an export has."""

_TYPES_OF_ROLES = {"user": "human", "assistant": "ai", "gpt": "ai", "developer": "system", "function": "tool"}


def item_of(line: Line, name: str, store: Store, stamp: Stamp) -> Incoming:
    """Return the item of a line, for a store. Raises InputError, naming the line, if it is not an item.

    A line of an export has all fields and may have others. A line without some of them was written by hand; there, a
    field that the type does not know is a mistake.
    """
    data, types = line.data, store.item_types
    undated: tuple[str, ...] = ()
    try:
        if isinstance(data, dict):
            _check_type(data, types)
            undated = tuple(time for time in TIMES if time not in data)
            data = data if "id" in data else {**data, "id": line.lasting_id(store.derived_id, *stamp)}
        item = load_item(data, types)
        check_item(item)
    except InputError as error:
        raise InputError(f"{name}, line {line.number}: {error}", field=error.field) from error
    return Incoming(item, line.hidden, undated)


def stamped(incoming: Incoming, stamp: Stamp, place: str) -> Incoming:
    """Return an item with the stamp. Raises InputError if it belongs to another user or session."""
    found = incoming.item.metadata
    given = {"user_id": stamp.user, "session_id": stamp.session}
    for name, value in given.items():
        held = getattr(found, name)
        if value is not None and held not in (None, value):
            what = name.removesuffix("_id")
            raise InputError(f"{place} belongs to the {what} {held!r}, not to {value!r}.", field=what)
    new = {name: value for name, value in given.items() if value is not None}
    if not new:
        return incoming
    item = incoming.item.model_copy(update={"metadata": found.model_copy(update=new)})
    check_item(item)
    return incoming._replace(item=item)


def _check_type(data: Mapping[str, Any], types: Mapping[str, type[MemoryItem]]) -> None:
    kind = data.get("memory_type")
    if kind is None:
        raise InputError("a memory needs a memory_type, such as human, ai, system or tool.", field="memory_type")
    if data.keys() >= _WRITTEN:
        return
    if isinstance(kind, str) and kind in _TYPES_OF_ROLES and kind not in types:
        raise InputError(f"{kind!r} is a role. The memory_type is {_TYPES_OF_ROLES[kind]!r}.", field="memory_type")
    fields = types.get(kind if isinstance(kind, str) else "", MemoryItem).model_fields
    # For a field of the metadata, load_item says where it belongs.
    unknown = next((key for key in data if key not in fields and key not in MemoryMetadata.model_fields), None)
    if unknown is not None:
        shown = repr(unknown) if len(unknown) <= 40 else "a key"
        raise InputError(
            f"{shown} is not a field of this type of memory. Values of your own belong in metadata.extra.", field="item"
        )
