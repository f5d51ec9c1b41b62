"""A folder of files in a store: the commands of the memory tool, each applied as a whole or not at all.

Every change is one compare-and-set of all the items that it touches, including the parent folder. If two processes
change the same file, or one fills a folder while another removes it, the second one reads again and retries.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from anthropic.tools import ToolError

from memoranda.store import ScopedStore
from memoranda_anthropic.nodes import (
    Node,
    NodeCodec,
    Parts,
    State,
    Step,
    inserted,
    listing,
    new_change,
    numbered,
    parts_of,
    path_of,
    replaced,
)
from memoranda_messages.sessions import retry_conflicts


@dataclass(frozen=True, slots=True)
class PreviousState:
    """What was at a path before a change, the change that had made it so, and the change that it has after."""

    parts: Parts
    state: State
    text: str = field(repr=False)
    made_by: str = field(repr=False)
    left_by: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of files: its id, the operation, its time, and what was at each path before.

    ``undoes`` is the id of the change that it reverted, if any.
    """

    id: str
    operation: str
    at: str
    before: tuple[PreviousState, ...]
    undoes: str | None = None

    @property
    def parts(self) -> list[Parts]:
        """The changed paths, as tuples of names."""
        return [was.parts for was in self.before]

    @property
    def paths(self) -> list[str]:
        """The changed paths."""
        return [path_of(was.parts) for was in self.before]


async def changes_of(store: ScopedStore, codec: NodeCodec) -> list[Change]:
    """Return every stored change, newest first."""
    changes: dict[str, Change] = {}
    async for item in store.scan(metadata=codec.past(), archived=True, order="added"):
        extra = item.metadata.extra
        was = PreviousState(tuple(extra["parts"]), extra["was"], item.content, extra["before"], extra["after"])
        earlier = changes.get(extra["change"])
        before = (*earlier.before, was) if earlier is not None else (was,)
        changes[extra["change"]] = Change(
            extra["change"], extra["operation"], item.created_at, before, extra.get("undoes")
        )
    return list(changes.values())[::-1]


async def undo_steps(
    change: Change, nodes: Mapping[Parts, Node], below: Callable[[Parts], Awaitable[list[Node]]]
) -> list[Step]:
    """Return the steps that revert a change.

    A folder that the change created stays if it has other contents by now. Raises ToolError if a file was changed
    since: later changes are not thrown away.
    """
    steps: list[Step] = []
    leaving = {was.parts for was in change.before if was.state == "none"}
    for was in change.before:
        node = nodes[was.parts]
        if was.state == "folder" and node.state == "folder":
            continue
        if was.state == "none" and node.state == "folder":
            others = [one for one in await below(was.parts) if one.parts not in leaving]
            if not others:
                steps.append(node.becomes("none", change=was.made_by))
            continue
        if node.change != was.left_by:
            raise ToolError(f"{node.path} was changed since; undo the later changes first. Nothing was changed.")
        steps.append(node.becomes(was.state, was.text, was.made_by))
    return steps


class Folder:
    """The files of one scope."""

    def __init__(self, store: ScopedStore) -> None:
        self._store = store
        self._codec = NodeCodec(store)

    async def view(self, path: str, view_range: list[int] | None) -> str:
        """Return a file with numbered lines, or the contents of a folder."""
        parts = parts_of(path)
        node = await self._node(parts)
        if node.state == "none":
            raise _missing(path, "Please provide a valid path.")
        if node.state == "file":
            return numbered(path, node.text, view_range)
        return listing(path, parts, await self._contents(parts))

    async def create(self, path: str, text: str) -> str:
        """Create a file that does not exist yet, and its parent folders."""

        async def work() -> str:
            parts = parts_of(path)
            node = await self._node(parts)
            if node.state != "none":
                raise ToolError(f"File {path} already exists")
            await self._write("create", [*await self._parent_steps(parts), node.becomes("file", text)])
            return f"File created successfully at: {path}"

        return await retry_conflicts(work)

    async def str_replace(self, path: str, old: str, new: str) -> str:
        """Replace ``old``, which must occur exactly once in a file."""

        async def work() -> str:
            node = await self._file(path)
            text, snippet = replaced(path, node.text, old, new)
            await self._write("str_replace", [node.becomes("file", text)])
            return snippet

        return await retry_conflicts(work)

    async def insert(self, path: str, line: int, text: str) -> str:
        """Insert lines after a line of a file."""

        async def work() -> str:
            node = await self._file(path)
            await self._write("insert", [node.becomes("file", inserted(node.text, line, text))])
            return f"The file {path} has been edited."

        return await retry_conflicts(work)

    async def delete(self, path: str) -> str:
        """Remove a file, or a folder with its contents."""

        async def work() -> str:
            parts = parts_of(path)
            if not parts:
                raise ToolError("Cannot delete the /memories directory itself")
            node = await self._node(parts)
            if node.state == "none":
                raise ToolError(f"The path {path} does not exist")
            gone = [node, *(await self._contents(parts) if node.state == "folder" else ())]
            above = await self._node(parts[:-1])
            await self._write("delete", [above.becomes("folder"), *(one.becomes("none") for one in gone)])
            return f"Successfully deleted {path}"

        return await retry_conflicts(work)

    async def rename(self, old_path: str, new_path: str) -> str:
        """Move a file, or a folder with its contents, to a path that does not exist yet."""

        async def work() -> str:
            old, new = parts_of(old_path), parts_of(new_path)
            if not old:
                raise ToolError("Cannot rename the /memories directory itself")
            if (await self._node(new)).state != "none":
                raise ToolError(f"The destination {new_path} already exists")
            node = await self._node(old)
            if node.state == "none":
                raise ToolError(f"The path {old_path} does not exist")
            if new[: len(old)] == old:
                raise ToolError(f"The directory {old_path} cannot be moved into itself")
            await self._write("rename", await self._rename_steps(node, new))
            return f"Successfully renamed {old_path} to {new_path}"

        return await retry_conflicts(work)

    async def clear(self) -> str:
        """Remove everything; this can be undone like any other change."""

        async def work() -> str:
            gone = await self._contents(())
            if gone:
                root = await self._node(())
                await self._write("clear", [root.becomes("folder"), *(node.becomes("none") for node in gone)])
            return "All memory cleared"

        return await retry_conflicts(work)

    async def history(self, path: str | None) -> list[Change]:
        """Return the changes, newest first; with a path, those that touched it or something in it."""
        wanted = parts_of(path) if path is not None else ()
        changes = await changes_of(self._store, self._codec)
        return [change for change in changes if any(parts[: len(wanted)] == wanted for parts in change.parts)]

    async def undo(self, change_id: str | None) -> str:
        """Revert a change: the one with this id, or the last one that is not reverted yet."""

        async def work() -> str:
            changes = await changes_of(self._store, self._codec)
            undone = {change.undoes for change in changes}
            for change in changes:
                if change.id == change_id or (change_id is None and not change.undoes and change.id not in undone):
                    break
            else:
                raise ToolError("There is no such change." if change_id else "There is nothing to undo.")
            nodes = {parts: await self._node(parts) for parts in change.parts}
            steps = await undo_steps(change, nodes, self._contents)
            parents = [step for parts in change.parts for step in await self._parent_steps(parts)]
            taken = {step.before.parts for step in steps}
            parents = list({step.before.parts: step for step in parents if step.before.parts not in taken}.values())
            await self._write("undo", [*parents, *steps], undoes=change.id)
            return f"Undone: {change.operation} of {', '.join(map(path_of, change.parts))}"

        return await retry_conflicts(work)

    async def _rename_steps(self, node: Node, new: Parts) -> list[Step]:
        steps = await self._parent_steps(new)
        above = await self._node(node.parts[:-1])
        if above.parts not in {step.before.parts for step in steps}:
            steps.append(above.becomes("folder"))
        moving = [node, *(await self._contents(node.parts) if node.state == "folder" else ())]
        targets = await self._nodes([(*new, *one.parts[len(node.parts) :]) for one in moving])
        for one, target in zip(moving, targets, strict=True):
            steps += [one.becomes("none"), target.becomes(one.state, one.text)]
        return steps

    async def _parent_steps(self, parts: Parts) -> list[Step]:
        """Return the steps that create the missing parent folders of a path, or lock the existing ones."""
        steps = []
        folders = await self._nodes([parts[:depth] for depth in range(len(parts))])
        for depth, node in enumerate(folders):
            if node.state == "file":
                raise ToolError(f"The path {node.path} is not a directory.")
            # The last existing folder is written too, so that no other process can remove it meanwhile.
            if node.state == "none" or depth + 1 == len(folders) or folders[depth + 1].state == "none":
                steps.append(node.becomes("folder"))
        return steps

    async def _file(self, path: str) -> Node:
        node = await self._node(parts_of(path))
        if node.state == "none":
            raise _missing(path, "Please provide a valid path.")
        if node.state != "file":
            raise ToolError(f"The path {path} is not a file.")
        return node

    async def _node(self, parts: Parts) -> Node:
        return (await self._nodes([parts]))[0]

    async def _nodes(self, wanted: list[Parts]) -> list[Node]:
        """Return the node at each of these paths."""
        ids = [self._codec.item_id(parts) for parts in wanted]
        found = {item.id: self._codec.node(item) for item in await self._store.get_many(ids)}
        nodes = [found.get(item_id, Node(parts, "none")) for item_id, parts in zip(ids, wanted, strict=True)]
        # The root folder always exists, even before its item was written.
        return [Node((), "folder", version=node.version) if not node.parts else node for node in nodes]

    async def _contents(self, parts: Parts) -> list[Node]:
        """Return the contents of a folder, at any depth."""
        found = [self._codec.node(item) async for item in self._store.scan(metadata=self._codec.below(parts))]
        return [node for node in found if node.state != "none" and node.parts != parts]

    async def _write(self, operation: str, steps: Iterable[Step], undoes: str | None = None) -> None:
        await self._store.update_many(self._codec.items(list(steps), new_change(), operation, undoes))


def _missing(path: str, advice: str) -> ToolError:
    return ToolError(f"The path {path} does not exist. {advice}")
