"""What was changed, and the way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from anthropic.tools import ToolError

from memoranda.store import ScopedStore
from memoranda_anthropic.nodes import Filing, Node, State, Step
from memoranda_anthropic.paths import Parts, path_of


@dataclass(frozen=True, slots=True)
class Was:
    """What was at a path before a change, and which changes had made it that and make it what it is after."""

    parts: Parts
    state: State
    text: str = field(repr=False)
    made_by: str = field(repr=False)
    left_by: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """A change of files: its id, what it was, when, and what was at each path before it.

    ``undoes`` is the id of the change that it took back, if it did.
    """

    id: str
    operation: str
    at: str
    before: tuple[Was, ...]
    undoes: str | None = None

    @property
    def parts(self) -> list[Parts]:
        """The paths that it changed, as names."""
        return [was.parts for was in self.before]

    @property
    def paths(self) -> list[str]:
        """The paths that it changed."""
        return [path_of(was.parts) for was in self.before]


async def changes_of(store: ScopedStore, filing: Filing) -> list[Change]:
    """Return every change that is remembered, newest first."""
    changes: dict[str, Change] = {}
    async for item in store.scan(metadata=filing.past(), archived=True, order="added"):
        extra = item.metadata.extra
        was = Was(tuple(extra["parts"]), extra["was"], item.content, extra["before"], extra["after"])
        known = changes.get(extra["change"])
        before = (*known.before, was) if known is not None else (was,)
        changes[extra["change"]] = Change(
            extra["change"], extra["operation"], item.created_at, before, extra.get("undoes")
        )
    return list(changes.values())[::-1]


async def steps_back(
    change: Change, nodes: Mapping[Parts, Node], below: Callable[[Parts], Awaitable[list[Node]]]
) -> list[Step]:
    """Return the steps that take a change back.

    A folder that the change made stays if something else is in it by now. Raises ToolError if a file was changed since:
    what came later is not thrown away.
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
