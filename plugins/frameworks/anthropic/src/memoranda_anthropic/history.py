"""The history of changes, and how to undo them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from anthropic.tools import ToolError

from memoranda.store import ScopedStore
from memoranda_anthropic.nodes import Node, NodeCodec, State, Step
from memoranda_anthropic.paths import Parts, path_of


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
