"""``memoranda spaces`` and ``memoranda grants``. Only the command imports this module."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import agree, counted
from memoranda_spaces.grants import Grants
from memoranda_spaces.records import Grant, Grantee, agent, checked

if TYPE_CHECKING:
    from memoranda.store import Store

spaces = typer.Typer(add_completion=False, no_args_is_help=True, help="List spaces, and say who can read an item.")
grants = typer.Typer(add_completion=False, no_args_is_help=True, help="List, give and revoke grants, and keep groups.")

Space = Annotated[str, argument("SPACE", "The name of the space.")]
Item = Annotated[str, argument("ID", "The id of the item.")]
Group = Annotated[str, argument("GROUP", "The name of the group.")]
Member = Annotated[str, argument("MEMBER", "user:ada or agent:planner.")]
To = Annotated[str, option("--to WHO", "user:ada, agent:planner or group:support.")]
OfUser = Annotated[str | None, option("--of-user ID", "With an agent: only this user's agent is meant.")]
By = Annotated[str, option("--by NAME", "Who decides; the grant records it.")]
Why = Annotated[str, option("--why TEXT", "Why; the grant records it.")]


@spaces.command("list")
@options.on_store
def list_spaces(*, target: options.Target) -> None:
    """Show the spaces of a store, with how many items each holds and to how many it is granted."""

    async def work(store: Store) -> list[dict[str, Any]]:
        found = Grants(store)
        given = [grant.space for grant in await found.list()]
        names = await found.spaces()
        counts = [await store.space(name).count() for name in names]
        return [
            {"space": name, "items": count, "grants": given.count(name)}
            for name, count in zip(names, counts, strict=True)
        ]

    listed = target.run(work)
    rows = [tuple(map(str, row.values())) for row in listed]
    nothing = "" if rows else "There are no spaces."
    target.report({"spaces": listed}, nothing, columns=("space", "items", "grants"), rows=rows)


@spaces.command()
@options.on_store
def who_can_read(item_id: Item, *, target: options.Target) -> None:
    """Show who can read an item, and why. Whoever has the store itself reads everything."""
    readers = target.run(lambda store: Grants(store).who_can_read(item_id))
    listed = [{"who": str(reader.who), "why": reader.why, "until": reader.until} for reader in readers]
    rows = [tuple(value or "" for value in row.values()) for row in listed]
    nobody = "" if rows else "Nobody can read it but whoever has the store."
    target.report({"item": item_id, "readers": listed}, nobody, columns=("who", "why", "until"), rows=rows)


@spaces.command()
@options.on_store
def publish(item_id: Item, space: Space, by: By, *, target: options.Target) -> None:
    """Copy an item of a private scope into a space. Purging the item takes the copy back."""
    copy = target.run(lambda store: Grants(store).publish(item_id, space, by=by), "change")
    target.report(
        {"item": item_id, "space": space, "copy": copy.id},
        f"The item {item_id!r} is published in {space!r} as {copy.id!r}.",
    )


@spaces.command()
@options.on_store
def unpublish(item_id: Item, space: Space, by: By, *, target: options.Target) -> None:
    """Take back what was published of an item in a space, with everything that was made from it."""
    if not target.run(lambda store: Grants(store).unpublish(item_id, space, by=by), "change"):
        raise CommandError(f"The item {item_id!r} is not published in {space!r}.", ExitCode.NOT_FOUND)
    target.report(
        {"item": item_id, "space": space, "unpublished": True},
        f"The item {item_id!r} is no longer published in {space!r}.",
    )


@grants.command("list")
@options.on_store
def list_grants(
    space: Annotated[str | None, option("--space SPACE", "Only of this space.")] = None,
    to: Annotated[str | None, option("--to WHO", "Only of this user, agent or group.")] = None,
    ended: Annotated[bool, option("--ended", "Also show grants that ended or were revoked.")] = False,
    *,
    target: options.Target,
) -> None:
    """Show grants: who may do what in which space, until when, and who decided it last."""
    if space is not None and to is not None:
        raise InputError("Give --space or --to, not both.", field="to")
    listed = target.run(lambda store: Grants(store).list(space or to, ended=ended))
    target.report(
        {"grants": [_as_json(grant) for grant in listed]},
        f"{counted(len(listed), 'grant')}.",
        columns=("space", "to", "may", "until", "by", "why"),
        rows=[_row(grant) for grant in listed],
    )


@grants.command()
@options.on_store
def give(
    space: Space,
    to: To,
    by: By,
    may: Annotated[str, option("--may LEVEL", "read, write or manage.")] = "read",
    until: Annotated[str | None, option("--until TIME", "When it ends; ISO-8601.")] = None,
    of_user: OfUser = None,
    why: Why = "",
    *,
    target: options.Target,
) -> None:
    """Let somebody read, write to or manage a space."""
    whom = _whom(to, of_user)
    given = target.run(lambda store: Grants(store).give(space, to=whom, may=may, until=until, by=by, why=why), "change")
    ends = "" if given.until is None else f" until {given.until}"
    target.report(_as_json(given), f"{given.to} may {given.may} the space {space!r}{ends}.")


@grants.command()
@options.on_store
def revoke(
    space: Space,
    to: To,
    by: By,
    of_user: OfUser = None,
    why: Why = "",
    yes: options.Yes = False,
    *,
    target: options.Target,
) -> None:
    """Take back a grant, and withdraw what was made from the space."""
    agree(f"Revoke what {to} may do in the space {space!r}? What they made from it is purged.", yes=yes)
    whom = _whom(to, of_user)
    if not target.run(lambda store: Grants(store).revoke(space, to=whom, by=by, why=why), "change"):
        raise CommandError(f"Nothing in the space {space!r} is granted to {to}.", ExitCode.NOT_FOUND)
    target.report(
        {"space": space, "to": to, "revoked": True},
        f"The space {space!r} is closed to {to}, unless another grant opens it.",
    )


@grants.command()
@options.on_store
def join(group: Group, member: Member, by: By, why: Why = "", *, target: options.Target) -> None:
    """Make a user or an agent a member of a group."""
    target.run(lambda store: Grants(store).join(group, member, by=by, why=why), "change")
    target.report({"group": group, "member": member, "joined": True}, f"{member} is a member of {group!r}.")


@grants.command()
@options.on_store
def leave(group: Group, member: Member, by: By, why: Why = "", *, target: options.Target) -> None:
    """Take a member out of a group, and withdraw what it made from the group's spaces."""
    if not target.run(lambda store: Grants(store).leave(group, member, by=by, why=why), "change"):
        raise CommandError(f"{member} is no member of {group!r}.", ExitCode.NOT_FOUND)
    target.report({"group": group, "member": member, "left": True}, f"{member} is no longer a member of {group!r}.")


@grants.command()
@options.on_store
def members(group: Group, *, target: options.Target) -> None:
    """Show the members of a group."""
    listed = [str(member) for member in target.run(lambda store: Grants(store).members(group))]
    target.report(
        {"group": group, "members": listed},
        f"{counted(len(listed), 'member')}.",
        columns=("member",),
        rows=[(member,) for member in listed],
    )


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
