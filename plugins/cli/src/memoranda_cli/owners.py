"""``memoranda owners``: who has something, how much, and since when."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memoranda.errors import InputError
from memoranda_cli import options
from memoranda_cli.terminal import say, show, show_json, table, visible

if TYPE_CHECKING:
    from memoranda.store import Owner


_FIELDS = {name: f"{name}_id" for name in ("user", "session", "task", "agent")} | {"namespace": "namespace"}
"""What owns a memory, by what people call it."""


@options.scoped
def owners(
    by: Annotated[str, typer.Argument(metavar="BY", help="user, session, task, agent or namespace.")] = "user",
    metadata: options.Owner = None,
    depth: Annotated[int | None, typer.Option("--depth", min=1, help="Cut namespaces off after so many names.")] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=0, help="The most to show.")] = 50,
    offset: Annotated[int, typer.Option("--offset", min=0, help="Pass over so many first.")] = 0,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """List who has something, in order: how many items each, and the times of the first and the last."""
    from memoranda_cli.stores import opened, run

    if by not in _FIELDS:
        raise InputError(f"{by!r} owns nothing; there are {', '.join(_FIELDS)}.", field="by")
    field = _FIELDS[by]

    async def read() -> list[Owner]:
        async with opened(store, store_options) as source:
            found = source.owners(field, within=metadata, depth=depth, limit=limit, offset=offset)  # type: ignore[arg-type]  # one of its names
            return [owner async for owner in found]

    found = run(read())
    if as_json:
        show_json(
            [{"value": owner.value, "count": owner.count, "first": owner.first, "last": owner.last} for owner in found]
        )
    elif found:
        rows = [
            (visible(_named(owner)), f"{owner.count:,}", _minute(owner.first), _minute(owner.last)) for owner in found
        ]
        show(table(by, ("items", {"justify": "right"}), "first (UTC)", "last (UTC)", rows=rows))
        if len(found) == limit:
            say(f"These are {limit}; --limit and --offset show more.")
    else:
        say(f"No {by} has anything here.")


def _named(owner: Owner) -> str:
    from memoranda.store import namespace_key

    return owner.value if isinstance(owner.value, str) else namespace_key(owner.value).removesuffix("/")


def _minute(moment: str) -> str:
    return moment[:16].replace("T", " ")
