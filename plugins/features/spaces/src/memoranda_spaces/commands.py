"""``memoranda spaces`` and ``memoranda grants``. Only the command imports this module."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import asdict
from typing import Annotated, Any, TypeVar

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.terminal import agree, say, show, show_json, table
from memoranda_spaces.grantees import Grantee, agent, checked
from memoranda_spaces.grants import Grants
from memoranda_spaces.records import Grant

T = TypeVar("T")

spaces = typer.Typer(add_completion=False, no_args_is_help=True, help="List spaces, and say who can read an item.")
grants = typer.Typer(add_completion=False, no_args_is_help=True, help="List, give and revoke grants, and keep groups.")

Space = Annotated[str, typer.Argument(metavar="SPACE", help="The name of the space.")]
Item = Annotated[str, typer.Argument(metavar="ID", help="The id of the item.")]
Group = Annotated[str, typer.Argument(metavar="GROUP", help="The name of the group.")]
To = Annotated[str, typer.Option("--to", metavar="WHO", help="user:ada, agent:planner or group:support.")]
OfUser = Annotated[
    str | None, typer.Option("--of-user", metavar="ID", help="With an agent: only this user's agent is meant.")
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; the grant records it.")]
Why = Annotated[str, typer.Option("--why", metavar="TEXT", help="Why; the grant records it.")]


@spaces.command("list")
def list_spaces(
    store: options.Store = None, store_options: options.StoreOptions = None, as_json: options.Json = False
) -> None:
    """Show the spaces of a store, with how many items each holds and to how many it is granted."""

    async def work(found: Grants, target: Any) -> list[dict[str, Any]]:
        given = [grant.space for grant in await found.list()]
        names = await found.spaces()
        counts = [await target.space(name).count() for name in names]
        return [
            {"space": name, "items": count, "grants": given.count(name)}
            for name, count in zip(names, counts, strict=True)
        ]

    rows = _run(store, store_options, "read", work)
    if as_json:
        show_json({"spaces": rows})
    elif rows:
        show(table("space", "items", "grants", rows=[tuple(map(str, row.values())) for row in rows]))
    else:
        say("There are no spaces.")


@spaces.command()
def who_can_read(
    item_id: Item,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Show who can read an item, and why. Whoever has the store itself reads everything."""

    async def work(found: Grants, target: Any) -> Any:
        return await found.who_can_read(item_id)

    readers = _run(store, store_options, "read", work)
    rows = [{"who": str(reader.who), "why": reader.why, "until": reader.until} for reader in readers]
    if as_json:
        show_json({"item": item_id, "readers": rows})
    elif rows:
        show(table("who", "why", "until", rows=[tuple(value or "" for value in row.values()) for row in rows]))
    else:
        say("Nobody can read it but whoever has the store.")


@spaces.command()
def publish(
    item_id: Item,
    space: Space,
    by: By,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Copy an item of a private scope into a space. Purging the item takes the copy back."""

    async def work(found: Grants, target: Any) -> str:
        copy = await found.publish(item_id, space, by=by)
        return copy.id

    copy = _run(store, store_options, "change", work)
    if as_json:
        show_json({"item": item_id, "space": space, "copy": copy})
    else:
        say(f"The item {item_id!r} is published in {space!r} as {copy!r}.")


@spaces.command()
def unpublish(
    item_id: Item,
    space: Space,
    by: By,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Take back what was published of an item in a space, with everything that was made from it."""

    async def work(found: Grants, target: Any) -> bool:
        return await found.unpublish(item_id, space, by=by)

    if not _run(store, store_options, "change", work):
        raise CommandError(f"The item {item_id!r} is not published in {space!r}.", ExitCode.NOT_FOUND)
    if as_json:
        show_json({"item": item_id, "space": space, "unpublished": True})
    else:
        say(f"The item {item_id!r} is no longer published in {space!r}.")


@grants.command("list")
def list_grants(
    space: Annotated[str | None, typer.Option("--space", metavar="SPACE", help="Only of this space.")] = None,
    to: Annotated[str | None, typer.Option("--to", metavar="WHO", help="Only of this user, agent or group.")] = None,
    ended: Annotated[bool, typer.Option("--ended", help="Also show grants that ended or were revoked.")] = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Show grants: who may do what in which space, until when, and who decided it last."""
    if space is not None and to is not None:
        raise InputError("Give --space or --to, not both.", field="to")

    async def work(found: Grants, target: Any) -> list[Grant]:
        return await found.list(space or to, ended=ended)

    listed = _run(store, store_options, "read", work)
    if as_json:
        show_json({"grants": [_as_json(grant) for grant in listed]})
        return
    if listed:
        columns = ("space", "to", "may", "until", "by", "why")
        show(table(*columns, rows=[_row(grant) for grant in listed]))
    say(f"{len(listed)} grant{'' if len(listed) == 1 else 's'}.")


@grants.command()
def give(
    space: Space,
    to: To,
    by: By,
    may: Annotated[str, typer.Option("--may", metavar="LEVEL", help="read, write or manage.")] = "read",
    until: Annotated[str | None, typer.Option("--until", metavar="TIME", help="When it ends; ISO-8601.")] = None,
    of_user: OfUser = None,
    why: Why = "",
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Let somebody read, write to or manage a space."""

    async def work(found: Grants, target: Any) -> Grant:
        return await found.give(space, to=_whom(to, of_user), may=may, until=until, by=by, why=why)

    given = _run(store, store_options, "change", work)
    if as_json:
        show_json(_as_json(given))
    else:
        ends = "" if given.until is None else f" until {given.until}"
        say(f"{given.to} may {given.may} the space {space!r}{ends}.")


@grants.command()
def revoke(
    space: Space,
    to: To,
    by: By,
    of_user: OfUser = None,
    why: Why = "",
    yes: options.Yes = False,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Take back a grant, and withdraw what was made from the space."""

    async def work(found: Grants, target: Any) -> bool:
        return await found.revoke(space, to=_whom(to, of_user), by=by, why=why)

    agree(f"Revoke what {to} may do in the space {space!r}? What they made from it is purged.", yes=yes)
    if not _run(store, store_options, "change", work):
        raise CommandError(f"Nothing in the space {space!r} is granted to {to}.", ExitCode.NOT_FOUND)
    if as_json:
        show_json({"space": space, "to": to, "revoked": True})
    else:
        say(f"The space {space!r} is closed to {to}, unless another grant opens it.")


@grants.command()
def join(
    group: Group,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="user:ada or agent:planner.")],
    by: By,
    why: Why = "",
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Make a user or an agent a member of a group."""

    async def work(found: Grants, target: Any) -> None:
        await found.join(group, member, by=by, why=why)

    _run(store, store_options, "change", work)
    say(f"{member} is a member of {group!r}.")


@grants.command()
def leave(
    group: Group,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="user:ada or agent:planner.")],
    by: By,
    why: Why = "",
    store: options.Store = None,
    store_options: options.StoreOptions = None,
) -> None:
    """Take a member out of a group, and withdraw what it made from the group's spaces."""

    async def work(found: Grants, target: Any) -> bool:
        return await found.leave(group, member, by=by, why=why)

    if not _run(store, store_options, "change", work):
        raise CommandError(f"{member} is no member of {group!r}.", ExitCode.NOT_FOUND)
    say(f"{member} is no longer a member of {group!r}.")


@grants.command()
def members(
    group: Group,
    store: options.Store = None,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Show the members of a group."""

    async def work(found: Grants, target: Any) -> list[str]:
        return [str(member) for member in await found.members(group)]

    listed = _run(store, store_options, "read", work)
    if as_json:
        show_json({"group": group, "members": listed})
        return
    if listed:
        show(table("member", rows=[(member,) for member in listed]))
    say(f"{len(listed)} member{'' if len(listed) == 1 else 's'}.")


def _run(
    store: str | None,
    store_options: list[str] | None,
    access: Any,
    work: Callable[[Grants, Any], Coroutine[Any, Any, T]],
) -> T:
    """Open the store, do the work with its grants, and return what comes of it."""
    from memoranda_commands.stores import opened, run

    async def do() -> T:
        async with opened(store, store_options, access) as target:
            return await work(Grants(target), target)

    return run(do())


def _whom(to: str, of_user: str | None) -> Grantee:
    whom = checked(to, "--to")
    if of_user is None:
        return whom
    if whom.kind != "agent":
        raise InputError("--of-user goes with an agent, as in --to agent:planner --of-user ada.", field="--of-user")
    return agent(whom.name, of=of_user)


def _row(grant: Grant) -> tuple[str, ...]:
    last = grant.history[-1] if grant.history else None
    state = "" if grant.is_given else " (revoked)"
    decided = ("", "") if last is None else (last.by, last.why)
    return (grant.space, str(grant.to), f"{grant.may}{state}", grant.until or "", *decided)


def _as_json(grant: Grant) -> dict[str, Any]:
    return {
        "space": grant.space,
        "to": str(grant.to),
        "may": grant.may,
        "until": grant.until,
        "is_given": grant.is_given,
        "history": [asdict(event) for event in grant.history],
    }
