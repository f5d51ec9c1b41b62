"""Opening what ``memoranda import`` is given: a file, a folder, an archive, and the images beside an export."""

from __future__ import annotations

import base64
import json
import shutil
import sqlite3
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import IO, Any

from memoranda.errors import InputError
from memoranda_userdata import FileError, open_binary, text_of
from memoranda_userdata.chats import other_stores
from memoranda_userdata.chats.chat_formats import FileFormat
from memoranda_userdata.chats.json_records import records

_KINDS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Attachments:
    """Finds files by the beginnings of their names. ``listed`` returns the reader of each file, by its name."""

    def __init__(self, listed: Callable[[], Mapping[str, Callable[[], bytes]]] = dict) -> None:
        self._listed = listed

    @cached_property
    def _files(self) -> Mapping[str, Callable[[], bytes]]:
        return self._listed()

    def image_url(self, file_id: str) -> str | None:
        """Return the image with this id as a ``data:`` URL; None if there is no such image file."""
        name = next((name for name in self._files if _is_of(name, file_id)), None) if file_id else None
        if name is None:
            return None
        data = self._files[name]()
        kind = next((kind for begins, kind in _KINDS if data.startswith(begins)), None)
        if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
            kind = "image/webp"
        return None if kind is None else f"data:{kind};base64,{base64.b64encode(data).decode()}"


def _is_of(name: str, file_id: str) -> bool:
    """Return True if a file's name is the id, alone or before a name or an ending."""
    return name.startswith(file_id) and not name[len(file_id) :][:1].isalnum()


_ZIP = b"PK\x03\x04"
_SQLITE = b"SQLite format 3\0"
_CONVERSATIONS = "conversations*.json"


@dataclass(slots=True)
class ImportFile:
    """A text file that can be read twice, its name for messages, and the images beside it.

    ``in_format`` is the format, where the kind of the file decides it.
    """

    text: IO[str]
    name: str
    attachments: Attachments = field(default_factory=Attachments)
    in_format: FileFormat | None = None


@contextmanager
def readable(file: str, asked: FileFormat | None) -> Iterator[ImportFile]:
    """Open what is to be imported; ``-`` is standard input.

    Of a folder or an archive, its ``conversations.json`` is read. Of a database, each session or value becomes a line.
    Raises FileError for what cannot be read, InputError for a file that has nothing to import.
    """
    if file != "-" and Path(file).is_dir():
        folder = Path(file)
        files = {
            path.relative_to(folder).as_posix(): path.read_bytes for path in sorted(folder.rglob("*")) if path.is_file()
        }
        with _conversations(files, file) as text:
            yield ImportFile(text, file, Attachments(lambda: _by_name(files)))
        return
    name = "standard input" if file == "-" else file
    with _binary(file) as source:
        begins = source.read(len(_SQLITE))
        source.seek(0)
        if begins.startswith(_ZIP):
            with _archive(source, name) as opened:
                yield opened
        elif begins == _SQLITE:
            with _database(source, name, asked) as opened:
                yield opened
        else:
            beside = Attachments(lambda: _beside(file))
            with text_of(source, name) as text:
                yield ImportFile(text, name, beside)


@contextmanager
def _binary(file: str) -> Iterator[IO[bytes]]:
    if file == "-":
        # An export is UTF-8 through a pipe as well, whatever the terminal's encoding.
        with tempfile.TemporaryFile() as spool:
            shutil.copyfileobj(sys.stdin.buffer, spool)
            spool.seek(0)
            yield spool
        return
    with open_binary(file) as source:
        yield source


def _beside(file: str) -> dict[str, Callable[[], bytes]]:
    """Return the files in the folder of an export; of standard input there are none."""
    if file == "-":
        return {}
    folder = Path(file).resolve().parent
    return {path.name: path.read_bytes for path in sorted(folder.rglob("file*")) if path.is_file()}


def _by_name(files: dict[str, Callable[[], bytes]]) -> dict[str, Callable[[], bytes]]:
    return {PurePosixPath(path).name: read for path, read in files.items()}


@contextmanager
def _archive(source: IO[bytes], name: str) -> Iterator[ImportFile]:
    try:
        with zipfile.ZipFile(source) as archive:
            files: dict[str, Callable[[], bytes]] = {
                each: lambda each=each: archive.read(each)  # type: ignore[misc]  # mypy does not see the default
                for each in sorted(archive.namelist())
                if not each.endswith("/")
            }
            with _conversations(files, name) as text:
                yield ImportFile(text, name, Attachments(lambda: _by_name(files)))
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError) as error:
        raise FileError(f"{name} cannot be read: it is damaged or encrypted.") from error


@contextmanager
def _conversations(files: dict[str, Callable[[], bytes]], name: str) -> Iterator[IO[str]]:
    """Give the conversations of an export. A large export has several files of them, which are read as one."""
    found = [path for path in files if PurePosixPath(path).match(_CONVERSATIONS)]
    if not found:
        raise InputError(f"{name} has no conversations.json: it is not an export of ChatGPT or Claude.", field="file")
    with tempfile.TemporaryFile() as spool:
        if len(found) == 1:
            spool.write(files[found[0]]())
            spool.seek(0)
            with text_of(spool, f"{name}, {found[0]}") as text:
                yield text
            return
        values: list[Any] = []
        for path in found:
            with tempfile.TemporaryFile() as one:
                one.write(files[path]())
                one.seek(0)
                with text_of(one, f"{name}, {path}") as text:
                    values += [record.value for record in records(text, f"{name}, {path}")]
        with _lines(values, name) as text:
            yield text


@contextmanager
def _lines(values: Iterable[Any], name: str) -> Iterator[IO[str]]:
    with tempfile.TemporaryFile() as spool:
        for value in values:
            spool.write(json.dumps(value).encode() + b"\n")
        spool.seek(0)
        with text_of(spool, name) as text:
            yield text


@contextmanager
def _database(source: IO[bytes], name: str, asked: FileFormat | None) -> Iterator[ImportFile]:
    if name == "standard input":
        raise InputError("A database is read from a file, not from standard input.", field="file")
    try:
        with closing(sqlite3.connect(f"{Path(name).resolve().as_uri()}?mode=ro", uri=True)) as database:
            tables = _tables(database)
            in_format = asked or _format_of(tables, name)
            if in_format is FileFormat.OPENAI_AGENTS and "message_data" in tables.get(other_stores.MESSAGES, ()):
                rows = list(other_stores.openai_agents_rows(database, tables))
            elif in_format is FileFormat.LANGGRAPH and "prefix" in tables.get(other_stores.LANGGRAPH_TABLE, ()):
                rows = list(other_stores.langgraph_rows(database, tables[other_stores.LANGGRAPH_TABLE]))
            else:
                raise InputError(f"{name} is a database without tables of the format {in_format}.", field="file")
    except sqlite3.Error as error:
        raise FileError(f"{name} cannot be read: {error}.") from error
    with _lines(rows, name) as text:
        yield ImportFile(text, name, in_format=in_format)


def _tables(database: sqlite3.Connection) -> dict[str, frozenset[str]]:
    names = [row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    columns = "SELECT name FROM pragma_table_info(?)"
    return {name: frozenset(row[0] for row in database.execute(columns, [name])) for name in names}


def _format_of(tables: dict[str, frozenset[str]], name: str) -> FileFormat:
    found = []
    if "message_data" in tables.get(other_stores.MESSAGES, ()):
        found.append(FileFormat.OPENAI_AGENTS)
    if {"prefix", "key", "value"} <= tables.get(other_stores.LANGGRAPH_TABLE, frozenset()):
        found.append(FileFormat.LANGGRAPH)
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(f"{name} has tables of {' and '.join(found)}. Pass --format with one of them.", field="file")
    if {"memory_id", "new_memory"} <= tables.get("history", frozenset()):
        raise InputError(
            f"{name} is mem0's history, which does not say whose each memory is. Write what get_all() returns for each "
            "user to a JSON file, and import that.",
            field="file",
        )
    if "checkpoints" in tables:
        raise InputError(
            f"{name} holds LangGraph's checkpoints: the state of a graph, not memories. Keep them, or write the "
            "messages of a state to a file and import that.",
            field="file",
        )
    raise InputError(
        f"{name} is a database that is not understood. To copy a store of memoranda, use 'memoranda copy'.",
        field="file",
    )
