"""The memory tool in the two forms of Anthropic's SDK, async and sync."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from anthropic.tools import BetaAbstractMemoryTool, BetaAsyncAbstractMemoryTool, ToolError
from anthropic.types.beta import (
    BetaCacheControlEphemeralParam,
    BetaMemoryTool20250818CreateCommand,
    BetaMemoryTool20250818DeleteCommand,
    BetaMemoryTool20250818InsertCommand,
    BetaMemoryTool20250818RenameCommand,
    BetaMemoryTool20250818StrReplaceCommand,
    BetaMemoryTool20250818ViewCommand,
)

from memoranda.errors import InputError, MemoryError
from memoranda.store import ScopedStore, Store
from memoranda.sync import SyncStore
from memoranda_anthropic.folder import Change, Folder

T = TypeVar("T")


class AsyncMemoryTool(BetaAsyncAbstractMemoryTool):
    """Anthropic's memory tool over a store: ``AsyncMemoryTool(store, user_id="ada")``.

    ``store`` must be open. The keywords are those of ``scoped()``, and bind it to a scope; a handle that is already
    bound needs none. Each scope has files of its own. Nothing that is overwritten or removed is lost: :meth:`history`
    returns every change, and :meth:`undo` reverts one. The model sees errors of the store as tool errors.
    """

    def __init__(
        self, store: Store, *, cache_control: BetaCacheControlEphemeralParam | None = None, **scope: Any
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._folder = Folder(_bound(store, scope))

    async def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file, or the contents of a folder."""
        with _tool_errors():
            return await self._folder.view(_path(command, "path"), getattr(command, "view_range", None))

    async def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        with _tool_errors():
            return await self._folder.create(_path(command, "path"), _text(command, "file_text"))

    async def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace text in a file."""
        with _tool_errors():
            return await self._folder.str_replace(
                _path(command, "path"), _text(command, "old_str"), _text(command, "new_str")
            )

    async def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file."""
        with _tool_errors():
            return await self._folder.insert(_path(command, "path"), _line(command), _text(command, "insert_text"))

    async def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file or a folder."""
        with _tool_errors():
            return await self._folder.delete(_path(command, "path"))

    async def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file or a folder."""
        with _tool_errors():
            return await self._folder.rename(_path(command, "old_path"), _path(command, "new_path"))

    async def clear_all_memory(self) -> str:
        """Remove all files; :meth:`undo` brings them back."""
        with _tool_errors():
            return await self._folder.clear()

    async def history(self, path: str | None = None) -> list[Change]:
        """Return the changes, newest first; with a path, those of that file or folder."""
        with _tool_errors():
            return await self._folder.history(path)

    async def undo(self, change: str | None = None) -> str:
        """Revert the last change that is not reverted yet, or the one with this id, and return which one it was.

        Raises ToolError, and changes nothing, if one of its files was changed since. An undo is a change itself, so
        undoing it by its id redoes the original change.
        """
        with _tool_errors():
            return await self._folder.undo(change)


class MemoryTool(BetaAbstractMemoryTool):
    """Anthropic's memory tool over a sync store: ``MemoryTool(memoranda.sync.open(url), user_id="ada")``.

    Otherwise the same as :class:`AsyncMemoryTool`.
    """

    def __init__(
        self, store: SyncStore, *, cache_control: BetaCacheControlEphemeralParam | None = None, **scope: Any
    ) -> None:
        super().__init__(cache_control=cache_control)
        self._store = store
        self._tool = AsyncMemoryTool(store.awaitable, **scope)

    def view(self, command: BetaMemoryTool20250818ViewCommand) -> str:
        """Show a file, or the contents of a folder."""
        return self._run(self._tool.view, command)

    def create(self, command: BetaMemoryTool20250818CreateCommand) -> str:
        """Create a file."""
        return self._run(self._tool.create, command)

    def str_replace(self, command: BetaMemoryTool20250818StrReplaceCommand) -> str:
        """Replace text in a file."""
        return self._run(self._tool.str_replace, command)

    def insert(self, command: BetaMemoryTool20250818InsertCommand) -> str:
        """Insert lines into a file."""
        return self._run(self._tool.insert, command)

    def delete(self, command: BetaMemoryTool20250818DeleteCommand) -> str:
        """Remove a file or a folder."""
        return self._run(self._tool.delete, command)

    def rename(self, command: BetaMemoryTool20250818RenameCommand) -> str:
        """Rename or move a file or a folder."""
        return self._run(self._tool.rename, command)

    def clear_all_memory(self) -> str:
        """Remove all files; :meth:`undo` brings them back."""
        return self._run(self._tool.clear_all_memory)

    def history(self, path: str | None = None) -> list[Change]:
        """Return the changes, newest first; with a path, those of that file or folder."""
        return self._run(self._tool.history, path)

    def undo(self, change: str | None = None) -> str:
        """Revert a change; see :meth:`AsyncMemoryTool.undo`."""
        return self._run(self._tool.undo, change)

    def _run(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> T:
        with _tool_errors():  # The sync store refuses calls, too, such as those after it was closed.
            return self._store.call(lambda _: work(*given))


def _bound(store: Store, scope: dict[str, Any]) -> ScopedStore:
    if scope:
        return store.scoped(**scope).own
    if not isinstance(store, ScopedStore):
        raise InputError(
            "The memory tool needs to know whose files it stores: give user_id=…, or a store that is already scoped.",
            field="user_id",
        )
    return store.own


@contextmanager
def _tool_errors() -> Iterator[None]:
    """Raise errors of the store as ToolErrors: the SDK shows these to the model, and hides all others."""
    try:
        yield
    except MemoryError as error:
        raise ToolError(str(error)) from error


def _text(command: Any, name: str) -> str:
    """Return a text argument. What a model sends was not validated before, so it may be missing or anything."""
    value = getattr(command, name, None)
    if name == "new_str" and value is None:
        return ""
    if not isinstance(value, str):
        raise ToolError(f"`{name}` is needed, and must be text.")
    return value


def _path(command: Any, name: str) -> Any:
    """Return a path as it was sent, or None; it is validated where it is resolved."""
    return getattr(command, name, None)


def _line(command: Any) -> int:
    value = getattr(command, "insert_line", None)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ToolError("`insert_line` is needed, and must be a whole number.")
    return value
