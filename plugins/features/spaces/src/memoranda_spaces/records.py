"""Grants as records, and what they allow now: looked up whenever it is asked.

Each grant is one item of the directory, which only :class:`memoranda_spaces.Grants` writes. The grantee is its
``session_id`` and the space its ``task_id``, so that all grants of somebody, and all of a space, are found by an index.
A membership in a group is a record of the same kind, whose place is the group. What has ended stays, with its history:
who changed it, when and why.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, get_args

from memoranda.errors import CorruptStoreError, InputError, NotGrantedError, quoted
from memoranda.items import MemoryItem, MemoryMetadata, MemoryStatus, utc_text
from memoranda.store import Store, copy_item
from memoranda.store.backend import AtLeast, Filter, Layer, Page, Value, items_where
from memoranda.store.checks import check_key
from memoranda.store.owners import DIRECTORY, check_name, check_user
from memoranda.store.ranked import RankedItem
from memoranda.store.records import RECORD_MAKERS
from memoranda.trust import Trust, trust_of

logger = logging.getLogger(__name__)

Kind = Literal["user", "agent", "group"]


@dataclass(frozen=True, slots=True)
class Grantee:
    """Somebody that a space can be granted to. Made by :func:`user`, :func:`agent` and :func:`group`.

    ``agent`` is set for an agent of one user: the grant holds for that user's handles of this agent alone.
    """

    kind: Kind
    name: str
    agent: str | None = None

    def __str__(self) -> str:
        return self.key if self.agent is None else f"{self.key} with agent:{self.agent}"

    @property
    def key(self) -> str:
        """The text that grants of this one are found by."""
        return f"{self.kind}:{self.name}"


def user(user_id: str) -> Grantee:
    """Return a user: all handles that are bound to the user, whatever their agent."""
    check_key(user_id, "user")
    check_user(user_id, "user")
    return Grantee("user", user_id)


def agent(agent_id: str, *, of: str | None = None) -> Grantee:
    """Return an agent of one user, or with ``of=None`` that of all users.

    Ids of agents are often general, such as ``"planner"``: without ``of``, every user's planner is meant.
    """
    check_key(agent_id, "agent")
    return Grantee("agent", agent_id) if of is None else Grantee("user", user(of).name, agent_id)


def group(name: str) -> Grantee:
    """Return a group: all of its members, see :meth:`memoranda_spaces.Grants.join`."""
    return Grantee("group", check_name(name, "group"))


def checked(to: Grantee | str, field: str = "to") -> Grantee:
    """Return whom a text such as ``"user:ada"`` or ``"group:support"`` names. Raises InputError if it names nobody."""
    if isinstance(to, Grantee):
        return to
    kind, colon, name = to.partition(":") if isinstance(to, str) else ("", "", "")
    makers: dict[str, Callable[[str], Grantee]] = {"user": user, "agent": agent, "group": group}
    if not colon or not name or kind not in makers:
        raise InputError(
            f"{field} names nobody: {quoted(to, text=True)}. Write user('ada'), agent('planner', of='ada') or "
            f"group('support'), or 'user:ada', 'agent:planner' or 'group:support'.",
            field=field,
        )
    return makers[kind](name)


def grantees_of(scope: MemoryMetadata) -> list[Grantee]:
    """Return as whom a handle of a scope is granted something, its groups apart."""
    found = []
    if scope.user_id is not None:
        found.append(Grantee("user", scope.user_id))
        if scope.agent_id is not None:
            found.append(Grantee("user", scope.user_id, scope.agent_id))
    if scope.agent_id is not None:
        found.append(Grantee("agent", scope.agent_id))
    return found


def identity(scope: MemoryMetadata) -> str:
    """Return the one name of whoever uses a handle of a scope: its user, or else its agent."""
    if scope.user_id is None and scope.agent_id is None:
        raise InputError(
            "Spaces are granted to users and agents: bind the handle to one, as in store.scoped(user_id=…).",
            field="scope",
        )
    return f"agent:{scope.agent_id}" if scope.user_id is None else f"user:{scope.user_id}"


RECORD = "grant"
"""The ``memory_type`` of grants."""

FORMAT = "memoranda.grant"

May = Literal["read", "write", "manage"]
"""What a grant allows; each allows what stands before it, too."""

LEVELS: Mapping[str, int] = {"read": 1, "write": 2, "manage": 3}

_GROUP = "group:"


@dataclass(frozen=True, slots=True)
class Event:
    """One change of a grant: what was done, when, by whom and why."""

    action: str
    at: str
    by: str
    why: str = ""
    may: str = ""
    until: str | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What somebody may do in a space, and how it came about; ``until`` is when that ends by itself.

    ``is_given`` is False for one that was revoked. ``history`` has all changes, oldest first.
    """

    space: str
    to: Grantee
    may: May
    until: str | None = None
    is_given: bool = True
    history: tuple[Event, ...] = ()
    version: int = field(default=0, compare=False)

    def allows(self, may: str, now: str) -> bool:
        """Return True if the grant is given, has not ended, and allows as much."""
        return self.is_given and LEVELS[self.may] >= LEVELS[may] and (self.until is None or self.until > now)

    @property
    def group(self) -> str | None:
        """The group that this is a membership of; None for the grant of a space."""
        return self.space[len(_GROUP) :] if self.space.startswith(_GROUP) else None


def check_may(may: str) -> May:
    """Return what a grant allows. Raises InputError for what is none of the three."""
    if may not in LEVELS:
        raise InputError(f"{quoted(may, text=True)} is nothing to grant; there are {', '.join(LEVELS)}.", field="may")
    return may  # type: ignore[return-value]  # one of the three


def membership_of(name: str) -> str:
    """Return the place that memberships of a group have instead of a space."""
    return group(name).key


def record_id(store: Store, space: str, to: Grantee) -> str:
    """Return the id of the one record of a grantee and a space."""
    return store.derived_id("\0".join((FORMAT, to.key, to.agent or "", space)))


def item_of(grant: Grant, at: str, own: str) -> MemoryItem:
    """Return a grant as the item that replaces the one of its version; ``own`` is the id of both."""
    history = [{name: getattr(event, name) for name in Event.__slots__} for event in grant.history]
    return MemoryItem(
        id=own,
        content="",
        memory_type=RECORD,
        status=MemoryStatus.ACCEPTED if grant.is_given else MemoryStatus.DISCARD,
        metadata=MemoryMetadata(
            user_id=DIRECTORY, session_id=grant.to.key, task_id=grant.space, agent_id=grant.to.agent
        ),
        created_at=grant.history[0].at if grant.history else at,
        updated_at=at,
        version=grant.version,
        archived_by=own,
        payload=json.dumps({"may": grant.may, "until": grant.until, "history": history}),
        payload_format=FORMAT,
    )


def grantee_of(item: MemoryItem) -> Grantee:
    """Return whom a record of the directory is about."""
    kind, _, name = str(item.metadata.session_id).partition(":")
    return Grantee(kind, name, item.metadata.agent_id)  # type: ignore[arg-type]  # one of the three, or no grant's


def readable_grant(item: MemoryItem) -> Grant | None:
    """Return the grant that an item of the directory holds; None, which is logged, for one that holds none.

    It allows nothing then, and must not hide what others allow.
    """
    try:
        return grant_of(item)
    except CorruptStoreError as error:
        logger.error("%s It allows nothing.", error)
        return None


def grant_of(item: MemoryItem) -> Grant:
    """Return the grant that an item of the directory holds. Raises CorruptStoreError if it holds none."""
    try:
        held: dict[str, Any] = json.loads(item.payload or "")
        if item.memory_type != RECORD or grantee_of(item).kind not in get_args(Kind) or held["may"] not in LEVELS:
            raise ValueError("no grant")
        if not isinstance(held["until"], (str, type(None))):
            raise ValueError("no time")
        return Grant(
            space=str(item.metadata.task_id),
            to=grantee_of(item),
            may=held["may"],
            until=held["until"],
            is_given=item.status is MemoryStatus.ACCEPTED,
            history=tuple(Event(**event) for event in held["history"]),
            version=item.version,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptStoreError(f"The stored item {item.id!r} cannot be read as a grant.") from error


async def read_records(
    directory: Layer, *, to: Sequence[str] | None = None, space: str | None = None, ended: bool = False
) -> list[MemoryItem]:
    """Return the records of some grantees, by their keys, of a space, or all; with ``ended`` also those revoked.

    They are found by what they say: a store that was filled from another one has them under the other's ids.
    """
    found: list[MemoryItem] = []
    for key in (None,) if to is None else to:  # One at a time, since every engine has an index for that.
        asked = Filter(
            metadata=MemoryMetadata(user_id=DIRECTORY, session_id=key, task_id=space),
            memory_type=RECORD,
            status=None if ended else MemoryStatus.ACCEPTED,
            archived=True,
        )
        found += reversed(await directory.read(items_where(asked, Page(order="added"))))
    return found


async def read_grants(
    directory: Layer, *, to: Sequence[str] | None = None, space: str | None = None, ended: bool = False
) -> list[Grant]:
    """Return the grants that :func:`read_records` finds, without what cannot be read."""
    found = map(readable_grant, await read_records(directory, to=to, space=space, ended=ended))
    return [grant for grant in found if grant is not None]


class Clock:
    """The present by a store's clock, which never goes slower than time does: a clock that is set back opens nothing.

    A clock that jumps ahead closes grants as long as it is ahead.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = clock() - time.monotonic()

    def now(self) -> str:
        present = max(self._clock(), self._began + time.monotonic())
        return utc_text(datetime.fromtimestamp(present, UTC))


@dataclass(frozen=True, slots=True)
class Granted:
    """What all grants of somebody allow together in one space, and until when; None for as long as they stand."""

    may: str
    until: str | None
    by: tuple[Grant, ...]
    """The grants that allow it."""


@dataclass(frozen=True, slots=True)
class Access:
    """Looks up what the user and the agent of a scope may do."""

    directory: Layer
    scope: MemoryMetadata
    now: Callable[[], str]

    async def spaces(self, names: Iterable[str] | None = None, may: str = "read") -> dict[str, Granted]:
        """Return the spaces in which as much is allowed now, of all or of some names, in the order of their names."""
        wanted = None if names is None else frozenset(names)
        live = await live_grants(self.directory, grantees_of(self.scope), self.now())
        found: dict[str, list[Grant]] = {}
        for grant in live:
            if LEVELS[grant.may] >= LEVELS[may] and (wanted is None or grant.space in wanted):
                found.setdefault(grant.space, []).append(grant)
        return {space: together(found[space]) for space in sorted(found)}

    async def check(self, space: str, may: str) -> Granted:
        """Return what is allowed in a space. Raises NotGrantedError if it is not as much."""
        found = (await self.spaces((space,), may)).get(space)
        if found is None:
            raise NotGrantedError(identity(self.scope), space, may)
        return found


async def live_grants(directory: Layer, to: Iterable[Grantee], now: str) -> list[Grant]:
    """Return the grants of spaces that hold now for some grantees, by themselves or by their groups."""
    whose = set(to)
    own = await read_grants(directory, to=sorted({grantee.key for grantee in whose}))
    held = [grant for grant in own if grant.to in whose and grant.allows("read", now)]
    groups = sorted({group(grant.group).key for grant in held if grant.group is not None})
    theirs = await read_grants(directory, to=groups) if groups else []
    return [grant for grant in (*held, *theirs) if grant.group is None and grant.allows("read", now)]


def together(grants: Iterable[Grant]) -> Granted:
    """Return what several grants of one space allow together: as much as the highest, as long as the longest."""
    given = tuple(grants)
    ends = [grant.until for grant in given if grant.until is not None]
    until = max(ends) if len(ends) == len(given) else None
    return Granted(max((grant.may for grant in given), key=LEVELS.__getitem__), until, given)


T = TypeVar("T")

MOST_TRUST = Trust.AGENT
"""How far anything in a space is trusted at most, by whoever it was written: it is never the reader's own word."""

WRITTEN_TRUST = Trust.EXTERNAL
"""How far what a member writes into a space is trusted, until an operator approves it."""

NOT_SHARED = (*sorted(RECORD_MAKERS), "branch", "fact", "graph")
"""Types that a handle reads in its own scope alone: what is believed of a user must not come from a space."""

_SHARED_ONLY = tuple(Value("memory_type", False, "$ne", kind) for kind in NOT_SHARED)


def shared(wanted: Filter) -> Filter | None:
    """Return a filter as it is asked of spaces; None if nothing that is shared could match."""
    if any(type(each) is AtLeast and each.trust > MOST_TRUST for each in wanted.further):
        return None
    kinds = (wanted.memory_type,) if isinstance(wanted.memory_type, str) else wanted.memory_type
    if kinds is None:
        return wanted.also(*_SHARED_ONLY)
    named = tuple(kind for kind in kinds if kind not in NOT_SHARED)
    return replace(wanted, memory_type=named) if named else None


def is_shared(item: MemoryItem) -> bool:
    """Return True for an item of a space that handles of others may be shown."""
    return item.memory_type not in NOT_SHARED


def seen(found: T) -> T:
    """Return an item of a space, or one with its score, as others see it; what changes for that is a copy."""
    item = found.item if isinstance(found, RankedItem) else found
    if not isinstance(item, MemoryItem) or trust_of(item) <= MOST_TRUST:
        return found
    lowered: Any = copy_item(item)
    lowered.__dict__["trust"] = str(MOST_TRUST)
    return replace(found, item=lowered) if isinstance(found, RankedItem) else lowered


def seen_all(found: Iterable[T]) -> list[T]:
    """Return what a read of a space gave as others see it."""
    return [seen(each) for each in found]
