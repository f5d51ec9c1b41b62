"""The file: a header, then one line for each change, in the order in which they were made.

A change is written with one call and one fsync, so a crash leaves either the whole line or a torn one at the very end,
which was never acknowledged and is cut off by the next writer. A file that has become mostly history is written anew,
under a new generation, which tells the other processes to read it from its beginning.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from memoranda.errors import CorruptStoreError, InputError, SchemaTooNewError, StoreUnavailableError
from memoranda.items import MemoryItem
from memoranda.store import dump_item, load_item

from memoranda_jsonl.locking import locked

FORMAT = 1
MIN_HISTORY = 1000
"""A file with fewer lines of history than this is never rewritten."""

Change = dict[str, list[Any]]
"""``{"put": [items]}``, ``{"hide": [ids]}``, ``{"show": [ids]}`` or ``{"drop": [ids]}``."""


@dataclass(slots=True)
class Entry:
    """An item, and whether it is hidden."""

    item: MemoryItem
    hidden: bool = False


class Journal:
    """The items of one file, kept up with what other processes write. Not for two threads at once."""

    def __init__(self, path: Path, types: Callable[[], Mapping[str, type[MemoryItem]]], *, sync: bool = True) -> None:
        self.path = path
        self.entries: dict[str, Entry] = {}  # In the order of adding; replacing an item keeps its place.
        self.lines = 0
        self._types = types
        self._sync = sync
        self._generation = ""
        self._end = 0

    @contextmanager
    def current(self) -> Iterator[None]:
        """Hold the lock for the block, with everything read that any process wrote."""
        try:
            with locked(self.path.with_name(f"{self.path.name}.lock")):
                if not self.path.exists():
                    self.rewrite()
                self._catch_up()
                yield
        except OSError as error:
            if isinstance(error, StoreUnavailableError):
                raise
            raise StoreUnavailableError(f"{self.path} cannot be used: {error.strerror or error}.") from error

    def append(self, change: Change) -> None:
        """Write and apply a change; call it inside :meth:`current`. After an error, the file is unchanged."""
        line = json.dumps(change, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
        with self.path.open("r+b") as file:
            file.truncate(self._end)  # Remove a line that a crashed writer left incomplete.
            file.seek(self._end)
            try:
                file.write(line)
                self._flush(file)
            except BaseException:
                file.truncate(self._end)
                raise
        self._end += len(line)
        self._apply(change)
        if self.lines > MIN_HISTORY + 2 * len(self.entries):
            self.rewrite()

    def rewrite(self) -> None:
        """Rewrite the file with the current items only; call it inside :meth:`current`."""
        new = self.path.with_name(f"{self.path.name}.new")
        generation = uuid.uuid4().hex
        with new.open("wb") as file:
            file.write(_line({"memoranda-jsonl": FORMAT, "generation": generation}))
            for entry in self.entries.values():
                file.write(_line({"put": [dump_item(entry.item)]}))
                if entry.hidden:
                    file.write(_line({"hide": [entry.item.id]}))
            self._flush(file)
        new.replace(self.path)
        self._flush_folder()
        self._generation = ""  # Read again: what is in the file is the only truth.
        self._catch_up()

    def _catch_up(self) -> None:
        with self.path.open("rb") as file:
            header = file.readline()
            generation = _generation(header, self.path)
            if generation != self._generation:
                self._generation = generation
                self._end = len(header)
                self.entries, self.lines = {}, 0
            file.seek(self._end)
            rest = file.read()
        whole = rest[: rest.rfind(b"\n") + 1].splitlines(keepends=True)
        for position, line in enumerate(whole):
            change = _read(line)
            if change is None:
                if position < len(whole) - 1:
                    raise CorruptStoreError(f"{self.path} has an unreadable line at byte {self._end}.")
                return  # Torn by a crash in mid-write: it was never acknowledged.
            self._apply(change)
            self._end += len(line)

    def _apply(self, change: Change) -> None:
        self.lines += 1
        for data in change.get("put", ()):
            try:
                item = load_item(data, self._types())
            except InputError as error:
                raise CorruptStoreError(f"{self.path} holds something that is no item: {error}") from error
            if item.id in self.entries:
                self.entries[item.id].item = item
                self.entries[item.id].hidden = False
            else:
                self.entries[item.id] = Entry(item)
        for name, hidden in (("hide", True), ("show", False)):
            for item_id in change.get(name, ()):
                if item_id in self.entries:
                    self.entries[item_id].hidden = hidden
        for item_id in change.get("drop", ()):
            self.entries.pop(item_id, None)

    def _flush(self, file: BinaryIO) -> None:
        file.flush()
        if self._sync:
            os.fsync(file.fileno())

    def _flush_folder(self) -> None:
        if self._sync and os.name != "nt":
            handle = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _read(line: bytes) -> Change | None:
    try:
        change = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return change if isinstance(change, dict) else None


def _generation(header: bytes, path: Path) -> str:
    data = _read(header)
    if data is None or "memoranda-jsonl" not in data:
        raise CorruptStoreError(f"{path} is not a file of this store; its first line is missing.")
    found: Any = data["memoranda-jsonl"]
    if found != FORMAT:
        raise SchemaTooNewError(str(path), found, FORMAT)
    return str(data.get("generation"))
