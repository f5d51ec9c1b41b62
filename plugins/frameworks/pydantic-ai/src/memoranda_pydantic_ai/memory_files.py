"""The memory of Pydantic AI's harness: files that an agent keeps, each an ordinary item that search and recall find.

A file's text is the content of its item, in the namespace ``("memory", …)`` of its folder. A write is a compare-and-set
of the file together with the receipt of the operation, all or none: an operation that is repeated after a crash is
recognised, and done once.
"""

from __future__ import annotations

import dataclasses
import json
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
    MemorySearchMatch,
    MemorySearchResult,
)

from memoranda.errors import UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import EVERYTHING, Capability, Store
from memoranda_messages.sessions import Records, finished, retry_conflicts, write_records

_SEGMENT = re.compile(r"[A-Za-z0-9_.-]{1,200}")
_LONGEST_METADATA = 4_096
_OPERATION = "operation"
_HAS_METADATA = any(field.name == "metadata" for field in dataclasses.fields(MemoryFile))
"""True if this release of the harness keeps metadata of writes."""


class MemorandaMemoryStore:
    """Files of the harness's ``Memory``: ``Memory(store=MemorandaMemoryStore(store.scoped(user_id="ada")))``.

    ``store`` is any store with the capabilities ``atomic`` and ``purge``, or better a handle bound to a user. A store
    that is not open yet, as where nothing can be awaited, is opened by the first call; it is never closed. This is the
    harness's ``MemoryStore``, ``SearchableMemoryStore`` and ``MetadataMemoryStore``. Receipts of operations stay until
    their user is forgotten.
    """

    def __init__(self, store: Store) -> None:
        for needed in (Capability.ATOMIC, Capability.PURGE):
            if needed not in store.capabilities:
                raise UnsupportedError(store.label, needed, remedy="Memory files need a store that has it.")
        self._items = store.own
        self._records = Records(store, "pydantic-ai-harness")
        self._top = (*(store.bounds or MemoryMetadata()).namespace, "memory")
        self._is_open = False

    def __repr__(self) -> str:
        return f"MemorandaMemoryStore({self._items!r})"

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return the first ``max_chars`` characters of a file, or None if there is no such file."""
        _check_path(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        item = await self._file(path)
        if item is None:
            return None
        held = item.metadata.extra
        return MemoryFile(
            content=item.content[:max_chars],
            version=_version(item),
            operation_id=held.get("operation"),
            truncated=len(item.content) > max_chars,
            **({"metadata": held.get("written_with")} if _HAS_METADATA else {}),
        )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return what an operation did before, or None. Raises MemoryOperationConflictError for other arguments."""
        await self._open()
        record = await self._records.get(_OPERATION, operation.id)
        if record is None:
            return None
        if record.value["fingerprint"] != operation.fingerprint:
            raise MemoryOperationConflictError(f"operation id {operation.id!r} was reused with different arguments")
        return MemoryMutation(version=record.value["version"], replayed=True, existed=record.value["existed"])

    async def write(
        self, path: str, content: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Create or replace a file of the expected version, None for a new one. Raises MemoryConflictError."""
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Create or replace a file as :meth:`write` does, and record metadata of this write, such as who made it."""
        _check_path(path)
        extra = {"written_with": _checked_metadata(metadata), "operation": operation.id if operation else None}

        def changed(item: MemoryItem | None, version: int) -> MemoryItem:
            birth = uuid.uuid4().hex if item is None else item.metadata.extra["birth"]
            return self._item(path, content, version, {**extra, "birth": birth})

        return await self._mutated(path, expected_version, operation, changed)

    async def delete(
        self, path: str, *, expected_version: str | None, operation: MemoryOperation | None = None
    ) -> MemoryMutation:
        """Delete a file of the expected version for good; with None, there must be none. Raises MemoryConflictError."""
        _check_path(path)

        def changed(item: MemoryItem | None, version: int) -> MemoryItem | None:
            return None if item is None else self._item(path, "", version, {"gone": True})

        return await self._mutated(path, expected_version, operation, changed)

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the paths that begin with a prefix, sorted, and at most ``limit`` of them."""
        if limit <= 0:
            raise ValueError("limit must be positive")
        return sorted(await self._files(prefix))[:limit]

    async def search(
        self, prefix: str, query: str, *, limit: int, max_files: int, max_chars: int, max_file_chars: int
    ) -> MemorySearchResult:
        """Return the files right below a prefix that have words of a query, those that have them most often first."""
        _check_prefix(prefix)
        terms = query.lower().split()
        if not terms or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        found = await self._files(prefix)
        paths = sorted(path for path in found if "/" not in path.removeprefix(prefix))
        read = {path: found[path].content[:max_file_chars] for path in paths[:max_files]}
        cut = len(paths) > max_files or any(len(found[path].content) > max_file_chars for path in read)
        scored = sorted(_scored(read, prefix, terms))
        matches: list[MemorySearchMatch] = []
        for score, path in scored[:limit]:
            max_chars -= len(path.removeprefix(prefix))
            if max_chars <= 0:
                break
            snippet = _snippet(read[path], terms, max_chars)
            max_chars -= len(snippet)
            matches.append(MemorySearchMatch(path=path, snippet=snippet, score=-score))
        return MemorySearchResult(matches=matches, scanned=len(read), truncated=cut or len(scored) > len(matches))

    async def _mutated(
        self, path: str, expected: str | None, operation: MemoryOperation | None, changed: Any
    ) -> MemoryMutation:
        """Replace a file of the expected version by what ``changed`` makes of it, together with the receipt."""
        await self._open()

        async def attempt() -> MemoryMutation:
            if operation is not None and (receipt := await self.get_operation(operation)) is not None:
                return receipt
            stored = await self._items.get(self._records.id_of("file", path))
            item = None if stored is None or stored.metadata.extra.get("gone") else stored
            if (None if item is None else _version(item)) != expected:
                # The same operation may have written the file since its receipt was looked for.
                if operation is not None and (receipt := await self.get_operation(operation)) is not None:
                    return receipt
                raise MemoryConflictError(f"memory path {path!r} changed before it could be written or deleted")
            new = changed(item, 0 if stored is None else stored.version)
            gone = new is None or new.metadata.extra.get("gone") is True
            version = None if gone else f"{new.metadata.extra['birth']}.{new.version + 1}"
            batch = [] if new is None else [new]
            if operation is not None:
                value = {"fingerprint": operation.fingerprint, "version": version, "existed": item is not None}
                batch.append(self._records.item(_OPERATION, operation.id, value))
            await write_records(self._items, batch)
            if new is not None and gone:
                await finished(self._items.purge(new.id, where={"gone": True}))
            return MemoryMutation(version=version, replayed=False, existed=item is not None)

        # If another process comes first, its receipt or its version of the file decides.
        return await retry_conflicts(attempt)

    def _item(self, path: str, content: str, version: int, extra: Mapping[str, Any]) -> MemoryItem:
        own = self._records.id_of("file", path)
        metadata = MemoryMetadata(namespace=(*self._top, *path.split("/")[:-1]), extra={"path": path, **extra})
        gone = own if extra.get("gone") else None
        return MemoryItem(id=own, content=content, metadata=metadata, version=version, archived_by=gone)

    async def _open(self) -> None:
        if not self._is_open:
            await self._items.init()
            self._is_open = True

    async def _file(self, path: str) -> MemoryItem | None:
        await self._open()
        item = await self._items.get(self._records.id_of("file", path))
        return None if item is None or item.metadata.extra.get("gone") else item

    async def _files(self, prefix: str) -> dict[str, MemoryItem]:
        """Return the files whose paths begin with a prefix, by their paths."""
        _check_prefix(prefix)
        await self._open()
        place = MemoryMetadata(namespace=(*self._top, *prefix.split("/")[:-1]))
        found = await self._items.search(metadata=place, mode="substring", limit=EVERYTHING)
        paths = [(str(item.metadata.extra.get("path")), item) for item in found]
        files = [(path, item) for path, item in paths if path.startswith(prefix)]
        # Another item may claim a path, but only the file itself has the id of its path.
        return {path: item for path, item in files if item.id == self._records.id_of("file", path)}


def _version(item: MemoryItem) -> str:
    """Return the version of a file, which no later file of the same path has again."""
    return f"{item.metadata.extra['birth']}.{item.version}"


def _check_path(path: str) -> None:
    """Raise ValueError for a path that no file can have, by the rules of the harness."""
    if not all(_SEGMENT.fullmatch(part) and ".." not in part and part != "." for part in path.split("/")):
        raise ValueError(f"invalid memory path: {path!r}")


def _check_prefix(prefix: str) -> None:
    if prefix:
        _check_path(prefix.removesuffix("/"))


def _checked_metadata(metadata: Mapping[str, str] | None) -> dict[str, str] | None:
    """Return the metadata of a write, None for an empty one, by the rules of the harness."""
    if not metadata:
        return None
    if not all(isinstance(text, str) for pair in metadata.items() for text in pair):
        raise TypeError("memory metadata keys and values must be strings")
    if any("\0" in text for pair in metadata.items() for text in pair):
        raise ValueError("memory metadata keys and values must not contain NUL characters")
    if len(json.dumps(dict(metadata), ensure_ascii=False, separators=(",", ":"))) > _LONGEST_METADATA:
        raise ValueError(f"memory metadata is longer than {_LONGEST_METADATA} characters as JSON")
    return dict(metadata)


def _scored(files: Mapping[str, str], prefix: str, terms: Iterable[str]) -> Iterable[tuple[float, str]]:
    """Yield a file's score, negated so that the best sorts first, and its path; a word in the name counts twice."""
    for path, content in files.items():
        name, text = path.removeprefix(prefix).lower(), content.lower()
        score = float(sum(text.count(term) + 2 * name.count(term) for term in terms))
        if score:
            yield -score, path


def _snippet(content: str, terms: Iterable[str], size: int) -> str:
    """Return the part of a text around the first of the terms; dots mark where it was cut."""
    text = content.lower()
    places = [place for term in terms if (place := text.find(term)) >= 0]
    start = max(0, min(places, default=0) - size // 3)
    end = min(len(content), start + size)
    start = max(0, end - size)
    snippet = content[start:end]
    dots = "." * min(3, len(snippet))
    if start:
        snippet = dots + snippet[len(dots) :]
    return snippet[: len(snippet) - len(dots)] + dots if end < len(content) else snippet
