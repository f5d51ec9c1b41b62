"""Who may read, write and manage which space: giving, revoking and listing grants, and keeping groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from memoranda.errors import InputError, NotGrantedError, VersionConflictError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.shapes import check_text
from memoranda.store import Moment, Store
from memoranda.store.backend import Layer, moment_text
from memoranda.store.granting import granting
from memoranda.store.owners import DIRECTORY, PREFIX, check_name, space_of
from memoranda.store.records import writing_records
from memoranda_spaces.derivations import publish, unpublish, withdraw
from memoranda_spaces.records import (
    LEVELS,
    RECORD,
    Access,
    Event,
    Grant,
    Grantee,
    check_may,
    checked,
    grantee_of,
    grantees_of,
    group,
    identity,
    item_of,
    membership_of,
    read_grants,
    read_records,
    readable_grant,
    record_id,
)

_ATTEMPTS = 20
_MOST_EVENTS = 200
"""How many changes a grant remembers; the oldest go first."""


@dataclass(frozen=True, slots=True)
class Reader:
    """Somebody who can read an item, and why: ``"owner"``, or a grant, given to them or to one of their groups."""

    who: Grantee
    why: str
    until: str | None = None


class Grants:
    """Gives, revokes and lists grants: ``Grants(store)`` for the operator, ``Grants(handle)`` for a handle's user.

    With a handle, a grant is given or revoked only by somebody who may manage the space at that moment, and records
    them; an operator says with ``by`` who decides. Nothing is granted by default. A grant that is revoked or has ended
    is closed to every call that begins afterwards, in every process.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._root: Store = store.root
        watch: Any = granting(self._root)
        self._now: Callable[[], str] = watch.now
        bounds = store.bounds
        self._scope: MemoryMetadata | None = bounds
        if bounds is not None:
            identity(bounds)
            if space_of(bounds) is not None or getattr(store, "trust", None) is not None:
                raise InputError(
                    "Grants needs the store, or a handle of a user without a trust: this one speaks for nobody.",
                    field="store",
                )

    @property
    def _directory(self) -> Layer:
        return self._root.unobserved

    # Grants

    async def give(
        self,
        space: str,
        *,
        to: Grantee | str,
        may: str = "read",
        until: Moment | None = None,
        by: str | None = None,
        why: str = "",
    ) -> Grant:
        """Let somebody read, write to or manage a space from now on, and return the grant.

        ``to`` is :func:`memoranda_spaces.user`, ``agent`` or ``group``. What was granted to them there before is
        replaced. ``until`` is when it ends by itself. Raises NotGrantedError if the handle's user may not manage the
        space, and InputError for a time that is over.
        """
        allowed, whom = check_may(may), checked(to)
        ends = None if until is None else moment_text(until, "until")
        if ends is not None and ends <= self._now():
            raise InputError("until lies in the past: a grant would have ended before it began.", field="until")

        def given(before: Grant | None, event: Event) -> Grant:
            event = replace(event, may=allowed, until=ends)
            return Grant(check_name(space), whom, allowed, ends, True, _history(before, event))

        grant = await self._changed(check_name(space), whom, "give", given, by, why)
        assert grant is not None, "giving always changes something"
        return grant

    async def revoke(self, space: str, *, to: Grantee | str, by: str | None = None, why: str = "") -> bool:
        """Take back what was granted to somebody in a space, and return whether anything was.

        What their users made from the space, and may not read any more, is withdrawn. If that fails, call it again.
        """
        return await self._changed(check_name(space), checked(to), "revoke", _ended, by, why) is not None

    async def list(self, of: Grantee | str | None = None, *, ended: bool = False) -> list[Grant]:
        """Return the grants of a space, given by its name, of somebody, or all; with ``ended`` also those that ended.

        A handle lists the grants of its own user and agent, and those of spaces that they manage.
        """
        space = of if isinstance(of, str) and ":" not in of else None
        to = None if of is None or space is not None else checked(of, "of")
        if self._scope is not None:
            await self._check_listing(self._scope, space, to)
        keys = None if to is None else [to.key]
        found = await read_grants(self._directory, to=keys, space=space and check_name(space), ended=ended)
        now = self._now()
        return [
            grant
            for grant in found
            if grant.group is None and (ended or grant.allows("read", now)) and (to is None or grant.to == to)
        ]

    async def spaces(self) -> Sequence[str]:
        """Return the names of all spaces that hold something or are granted; of a handle, those that it may read."""
        if self._scope is not None:
            return [*await self._access(self._scope).spaces()]
        named = {grant.space for grant in await self.list()}
        async for owner in self._root.owners("user_id", counts=False):
            if str(owner.value).startswith(PREFIX) and owner.value != DIRECTORY:
                named.add(str(owner.value)[len(PREFIX) :])
        return sorted(named)

    async def who_can_read(self, item: MemoryItem | str) -> Sequence[Reader]:
        """Return who can read an item now, each with the reason; whoever has the store itself reads everything.

        A handle is told of items that it reads itself. Raises InputError if there is no such item.
        """
        held = await self._store.get(item.id if isinstance(item, MemoryItem) else item)
        if held is None:
            raise InputError("There is no such item, or this handle may not read it.", field="item")
        space = space_of(held)
        if space is None:
            owner = held.metadata.model_copy(update={"user_id": None} if held.metadata.user_id == DIRECTORY else {})
            return [Reader(grantee, "owner") for grantee in grantees_of(owner)[:1]]
        now = self._now()
        readers = []
        for grant in await read_grants(self._directory, space=space):
            if not grant.allows("read", now):
                continue
            if grant.to.kind != "group":
                readers.append(Reader(grant.to, grant.may, grant.until))
                continue
            why = f"{grant.may}, as a member of {grant.to}"
            readers += [Reader(member, why, grant.until) for member in await self.members(grant.to.name)]
        return readers

    # Publications

    async def publish(self, item: MemoryItem | str, space: str, *, by: str | None = None) -> MemoryItem:
        """Copy an item of a private scope into a space, and return the copy, which names the item as its source.

        The copy has the words, the time and who spoke, and nothing else: no ids of conversations, no values of your
        own. Publishing again replaces the copy. Purging the item takes it back. Needs a grant to write.
        """
        found = await self._store.own.get(item.id if isinstance(item, MemoryItem) else item)
        if found is None:
            raise InputError("There is no such item in the scope of this handle.", field="item")
        self._decider(by)
        access = None if self._scope is None else self._access(self._scope)
        return await publish(self._root, access, found, check_name(space))

    async def unpublish(self, item: MemoryItem | str, space: str, *, by: str | None = None) -> bool:
        """Take back what was published of an item in a space, with everything that was made from it.

        Returns whether there was anything. Whoever published it may do so, grant or not, and whoever may manage.
        """
        item_id = item.id if isinstance(item, MemoryItem) else check_text(item, "item")
        self._decider(by)
        manages = self._scope is None or check_name(space) in await self._access(self._scope).spaces((space,), "manage")
        own = None if self._scope is None else identity(self._scope)
        return await unpublish(self._root, item_id, check_name(space), None if manages else own)

    # Groups

    async def join(self, name: str, member: Grantee | str, *, by: str, why: str = "") -> None:
        """Make a user or an agent a member of a group. Groups are flat, and the operator's: a handle changes none."""
        whom = self._member(member)

        def joined(before: Grant | None, event: Event) -> Grant | None:
            if before is not None and before.is_given:
                return None
            return Grant(membership_of(name), whom, "read", None, True, _history(before, event))

        await self._changed(membership_of(name), whom, "join", joined, by, why)

    async def leave(self, name: str, member: Grantee | str, *, by: str, why: str = "") -> bool:
        """Take a member out of a group, and return whether it was one. What it made from its spaces is withdrawn."""
        return await self._changed(membership_of(name), self._member(member), "leave", _ended, by, why) is not None

    async def members(self, name: str) -> Sequence[Grantee]:
        """Return the members of a group."""
        return [grant.to for grant in await read_grants(self._directory, space=membership_of(name))]

    # How a grant is changed

    async def _changed(
        self,
        place: str,
        to: Grantee,
        action: str,
        change: Callable[[Grant | None, Event], Grant | None],
        by: str | None,
        why: str,
    ) -> Grant | None:
        """Store what ``change`` makes of a grant as it is now, and return it; None if that is nothing.

        The grants that allow the change are written together with it, as they are, so that a manager whose grant ends
        meanwhile changes nothing.
        """
        decider, reason = self._decider(by), check_text(why, "why")
        for _ in range(_ATTEMPTS):
            held = await self._held(place, [to])
            witnesses = await self._managing(place)
            before = readable_grant(held[0]) if held else None
            now = self._now()
            changed = change(before, Event(action, now, decider, reason))
            if changed is None:
                if before is not None and not before.is_given:
                    await self._settle(before)  # Who ended it may have been killed before everything was withdrawn.
                return None
            items = {item.id: item for item in witnesses}
            # One record is usual; a store that was filled from several may have more, which all say the same then.
            known = [(item.id, item.version) for item in held] or [(record_id(self._root, place, to), 0)]
            for item_id, version in known:
                items[item_id] = item_of(replace(changed, version=version), now, item_id)
            try:
                with writing_records(RECORD):
                    await self._root.update_many(items.values())
            except VersionConflictError:
                continue  # It was changed meanwhile, or the manager's own grant was: look again.
            await self._narrowed(before, changed)
            return changed
        raise VersionConflictError(record_id(self._root, place, to), 0, None)

    async def _held(self, place: str, to: Sequence[Grantee]) -> Sequence[MemoryItem]:
        """Return the records of some grantees in a place, those that are given first, and what cannot be read last."""
        keys = sorted({grantee.key for grantee in to})
        found = await read_records(self._directory, to=keys, space=place, ended=True)
        return sorted((item for item in found if grantee_of(item) in to), key=lambda item: not _is_given(item))

    def _decider(self, by: str | None) -> str:
        """Return who decides: the user of a handle, or whom an operator names."""
        if self._scope is not None:
            if by is not None and by != identity(self._scope):
                raise InputError("A handle decides in the name of its own user: leave out by.", field="by")
            return identity(self._scope)
        if by is None or not check_text(by, "by").strip():
            raise InputError("Say with by=… who decides: the grant records it.", field="by")
        return by

    async def _managing(self, place: str) -> Sequence[MemoryItem]:
        """Return the records that let this handle's user manage a space; an operator needs none."""
        if self._scope is None:
            return []
        if ":" in place:
            raise NotGrantedError(identity(self._scope), place, "manage")
        granted = await self._access(self._scope).check(place, "manage")
        grant = max(granted.by, key=lambda each: LEVELS[each.may])
        records = [*await self._held(place, [grant.to])]
        if grant.to.kind == "group":
            records += await self._held(membership_of(grant.to.name), grantees_of(self._scope))
        return [item for item in records if _is_given(item)]

    async def _narrowed(self, before: Grant | None, after: Grant) -> None:
        """Withdraw what a grant does not cover any more, if it covers less than before."""
        if before is None or not before.is_given:
            return
        if not after.is_given or _is_sooner(after.until, before.until):
            await self._settle(after)

    async def _settle(self, changed: Grant) -> None:
        """Withdraw what users made from spaces that they may not read any more, or not for as long."""
        members = [changed.to] if changed.to.kind != "group" else await self.members(changed.to.name)
        spaces = [changed.space]
        if changed.group is not None:
            spaces = [grant.space for grant in await read_grants(self._directory, to=[group(changed.group).key])]
        for member in members:
            if member.kind == "user" and member.agent is None:
                await self._withdraw_from(member, spaces)

    async def _withdraw_from(self, member: Grantee, spaces: Iterable[str]) -> None:
        live = await self._access(MemoryMetadata(user_id=member.name)).spaces(spaces)
        for space in spaces:
            if space not in live:
                await withdraw(self._root, space, users=(member.name,))
            elif (until := live[space].until) is not None:
                await withdraw(self._root, space, users=(member.name,), outlasting=until)

    async def _check_listing(self, scope: MemoryMetadata, space: str | None, to: Grantee | None) -> None:
        if to is not None and to in grantees_of(scope):
            return
        if space is None:
            raise InputError(
                "A handle lists the grants of its own user, or of a space that it manages: name one with of=….",
                field="of",
            )
        await self._access(scope).check(space, "manage")

    def _member(self, member: Grantee | str) -> Grantee:
        if self._scope is not None:
            raise InputError("Groups are the operator's: use Grants(store).", field="store")
        whom = checked(member, "member")
        if whom.kind == "group":
            raise InputError("Groups are flat: a group is no member of another.", field="member")
        return whom

    def _access(self, scope: MemoryMetadata) -> Access:
        return Access(self._directory, scope, self._now)


def _is_given(record: MemoryItem) -> bool:
    grant = readable_grant(record)
    return grant is not None and grant.is_given


def _history(before: Grant | None, event: Event) -> tuple[Event, ...]:
    return (*(before.history if before is not None else ()), event)[-_MOST_EVENTS:]


def _ended(before: Grant | None, event: Event) -> Grant | None:
    """Return a grant as it is once it has ended; None if there is none to end."""
    if before is None or not before.is_given:
        return None
    return replace(before, is_given=False, history=_history(before, event))


def _is_sooner(end: str | None, than: str | None) -> bool:
    return end is not None and (than is None or end < than)
