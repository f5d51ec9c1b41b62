"""``memoranda add`` and ``fork``: store one memory, or begin a new session from an old one."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.terminal import say, show_json

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import Store

WHAT = "Item"
TOOLS = "Tools"


@options.scoped
def add(
    content: Annotated[
        str | None, typer.Argument(metavar="CONTENT", help="The text; '-' or nothing reads it from a pipe.")
    ] = None,
    memory_type: Annotated[
        str, typer.Option("--type", help="human, ai, tool, system, or any type of your own.", rich_help_panel=WHAT)
    ] = "human",
    name: Annotated[
        str | None, typer.Option("--name", help="Who spoke, where the type is not enough.", rich_help_panel=WHAT)
    ] = None,
    item_id: Annotated[
        str | None, typer.Option("--id", help="An id; one that exists is replaced.", rich_help_panel=WHAT)
    ] = None,
    status: Annotated[str, typer.Option("--status", help="draft, accepted or discard.", rich_help_panel=WHAT)] = (
        "accepted"
    ),
    at: Annotated[
        str | None, typer.Option("--at", metavar="TIME", help="When; ISO-8601, UTC by default.", rich_help_panel=WHAT)
    ] = None,
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="KEY=JSON", help="A further field; may be repeated.", rich_help_panel=WHAT),
    ] = None,
    tool_calls: Annotated[
        str | None,
        typer.Option("--tool-calls", metavar="JSON", help="The calls of an ai item.", rich_help_panel=TOOLS),
    ] = None,
    tool_call_id: Annotated[
        str | None, typer.Option("--tool-call-id", help="The call that a tool item answers.", rich_help_panel=TOOLS)
    ] = None,
    tool_name: Annotated[str | None, typer.Option("--tool-name", help="The tool.", rich_help_panel=TOOLS)] = None,
    failed: Annotated[bool, typer.Option("--failed", help="The tool failed.", rich_help_panel=TOOLS)] = False,
    ttl: Annotated[
        float | None, typer.Option("--ttl", metavar="SECONDS", help="Remove it by itself after so long.")
    ] = None,
    *,
    target: options.Target,
) -> None:
    """Store one memory, and print its id."""
    text = _content(content)
    if not text.strip() and tool_calls is None and memory_type != "tool":
        # An item that calls a tool may have no text, and neither may a result.
        raise InputError("There is nothing to store: give the text on the line or through a pipe.", field="content")
    fields: dict[str, Any] = {
        "content": text,
        "memory_type": memory_type,
        "status": status,
        **{key: value for key, value in {"id": item_id, "name": name, "created_at": at}.items() if value is not None},
        **options.pairs(field, "--field"),
    }
    if tool_calls is not None:
        fields["tool_calls"] = _calls(tool_calls)
    fields |= {key: value for key, value in (("tool_call_id", tool_call_id), ("tool_name", tool_name)) if value}
    if failed:
        fields["is_error"] = True
    if target.metadata is not None:
        fields["metadata"] = target.metadata
    _add(target, fields, ttl)


def _add(target: options.Target, fields: dict[str, Any], ttl: float | None) -> None:
    from memoranda.store import dump_item, load_item
    from memoranda.store.backend import check_item

    # An item that is refused must not leave a new store behind.
    check_item(load_item(fields))

    async def work(store: Store) -> tuple[MemoryItem, MemoryItem | None]:
        item = load_item(fields, store.item_types)
        await store.add(item, ttl=ttl)
        return item, await store.get(item.id) if target.as_json else None

    item, stored = target.run(work, "create")
    if stored is not None:
        show_json(dump_item(stored))
    else:
        typer.echo(item.id)


def _content(given: str | None) -> str:
    if given is not None and given != "-":
        content = given
    else:
        if sys.stdin.isatty():
            say("Type the memory; Ctrl-D ends it.")
        try:
            content = sys.stdin.read().removesuffix("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"The piped text is not {error.encoding.upper()} text.", field="content") from error
    options.check_decoded(content, "The text")
    return content


def _calls(text: str) -> Any:
    import json

    try:
        return json.loads(text)
    except ValueError as error:
        raise InputError(f"--tool-calls is not JSON: {error}.", field="tool_calls") from error


@options.on_store
def fork(
    session: Annotated[str, typer.Argument(metavar="SESSION", help="The session to fork.")],
    at: Annotated[str, typer.Option("--at", metavar="ID", help="The last item that both share.")],
    user: Annotated[str | None, typer.Option("--user", "-u", metavar="ID", help="Only this user's session.")] = None,
    *,
    target: options.Target,
) -> None:
    """Fork a session at one of its items, and print the id of the new one.

    The new session shows the other one up to that item, and continues on its own; nothing is copied.
    'memoranda history --ids' shows the ids of items.
    """

    async def work(store: Store) -> str:
        source = store if user is None else store.scoped(user_id=user)
        return await source.fork(session, at=at)

    branch = target.run(work, "change")
    if target.as_json:
        show_json({"session": branch, "parent": session, "at": at})
    else:
        typer.echo(branch)
