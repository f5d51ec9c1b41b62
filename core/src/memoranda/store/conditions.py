"""The kinds of conditions that a filter is made of: a small closed set that every backend translates.

Each kind says here, and nowhere else, which items pass it, whether it bounds a scope, and what of it a prepared
statement depends on. A backend goes through ``Filter.conditions`` by the exact type of each: it translates the kinds it
knows, and for any other it asks :meth:`Condition.matches` of every item or raises UnsupportedError. A kind that it has
never heard of is never passed over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal, final

from memoranda.errors import UnsupportedError
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus, ids_of
from memoranda.store.owners import PREFIX, is_below
from memoranda.trust import Trust, trust_of

_SLICE_CHARACTERS = 1 << 16
"""How many characters of a long text are folded at once."""


def fold(text: str) -> str:
    """Return the text as substring search compares it: Unicode case folding, nothing else."""
    return text.casefold()


def json_equal(left: Any, right: Any) -> bool:
    """Compare two JSON values: true is not 1, but 1 is 1.0; objects regardless of the order of their keys."""
    if type(left) is str and type(right) is str:  # Nearly always; the other questions take longer than the answer.
        return left == right
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(value, right[key]) for key, value in left.items())
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        return len(left) == len(right) and all(map(json_equal, left, right))
    return bool(left == right)


@dataclass(frozen=True, slots=True)
class Condition(ABC):
    """One condition of a filter."""

    bounds_scope: ClassVar[bool] = False
    """True if it says where to look, so that it holds for the neighbours of what is found too.

    A ranking reads a scope as a whole: what goes before and after an item counts, whatever its type and status are.
    """

    def __init_subclass__(cls, *, bounds_scope: bool | None = None) -> None:
        if bounds_scope is not None:  # A dataclass with slots is made twice, the second time without the argument.
            cls.bounds_scope = bounds_scope

    @abstractmethod
    def matches(self, item: MemoryItem) -> bool:
        """Return True if the item matches this condition."""

    def test(self) -> Callable[[MemoryItem], bool]:
        """Return a faster equivalent of :meth:`matches`, for filters over very many items."""
        return self.matches

    @property
    def shape(self) -> Hashable:
        """What the text of a statement depends on: everything except the bound values."""
        return self


@final
@dataclass(frozen=True, slots=True)
class InScope(Condition, bounds_scope=True):
    """A scope field of the metadata has this value."""

    field: str
    value: str

    def matches(self, item: MemoryItem) -> bool:
        return bool(item.metadata.__dict__[self.field] == self.value)

    @property
    def shape(self) -> Hashable:
        return InScope, self.field


@final
@dataclass(frozen=True, slots=True)
class OfUsers(Condition, bounds_scope=True):
    """The item is neither in a space nor a grant: its owner does not begin with the prefix of spaces.

    It bounds a handle that names no user, whose session, task, agent or namespace something in a space may have, too.
    """

    prefix: ClassVar[str] = PREFIX

    def matches(self, item: MemoryItem) -> bool:
        owner = item.metadata.__dict__["user_id"]
        return owner is None or not owner.startswith(PREFIX)


OF_USERS = OfUsers()


@final
@dataclass(frozen=True, slots=True)
class ExtraEquals(Condition, bounds_scope=True):
    """``metadata.extra`` has the key with a value that is equal as JSON."""

    key: str
    value: Any

    def matches(self, item: MemoryItem) -> bool:
        extra = item.metadata.extra
        return self.key in extra and json_equal(self.value, extra[self.key])

    @property
    def shape(self) -> Hashable:
        return ExtraEquals


@final
@dataclass(frozen=True, slots=True)
class Archived(Condition, bounds_scope=True):
    """The item is archived, or is not."""

    archived: bool

    def matches(self, item: MemoryItem) -> bool:
        return (item.archived_by is not None) is self.archived


@final
@dataclass(frozen=True, slots=True)
class FieldEquals(Condition):
    """A field that every item has is this text, or a status of this text."""

    field: str
    value: str | MemoryStatus

    def matches(self, item: MemoryItem) -> bool:
        return bool(item.__dict__[self.field] == self.value)

    @property
    def text(self) -> str:
        """The value as it is stored."""
        return str(self.value)

    @property
    def shape(self) -> Hashable:
        return FieldEquals, self.field


@final
@dataclass(frozen=True, slots=True)
class Contains(Condition):
    """The content contains a text; both are case-folded."""

    folded: str

    def matches(self, item: MemoryItem) -> bool:
        content = item.content
        if len(content) <= _SLICE_CHARACTERS:
            return self.folded in fold(content)
        # Python gives way to other threads only between two slices. Folding takes each character by itself.
        before = ""
        for start in range(0, len(content), _SLICE_CHARACTERS):
            text = before + fold(content[start : start + _SLICE_CHARACTERS])
            if self.folded in text:
                return True
            before = text[max(0, len(text) - len(self.folded) + 1) :]  # A query may be longer than a slice.
        return False

    @property
    def shape(self) -> Hashable:
        return Contains


@final
@dataclass(frozen=True, slots=True)
class Below(Condition, bounds_scope=True):
    """The namespace of the metadata is this place or lies below it."""

    place: tuple[str, ...]

    def matches(self, item: MemoryItem) -> bool:
        return is_below(item.metadata.namespace, self.place)

    @property
    def shape(self) -> Hashable:
        return Below


@final
@dataclass(frozen=True, slots=True)
class Created(Condition, bounds_scope=True):
    """The item was created at ``since`` or later, and before ``until``; both in the form that items carry."""

    since: str | None = None
    until: str | None = None

    def matches(self, item: MemoryItem) -> bool:
        created = item.created_at
        return (self.since is None or created >= self.since) and (self.until is None or created < self.until)

    @property
    def shape(self) -> Hashable:
        return Created, self.since is None, self.until is None


@final
@dataclass(frozen=True, slots=True)
class Expiry(Condition, bounds_scope=True):
    """The item has expired at the time ``now``, or has not."""

    now: str
    expired: bool = False

    def matches(self, item: MemoryItem) -> bool:
        ends = item.__dict__["expires_at"]
        return (ends is not None and ends <= self.now) is self.expired

    @property
    def shape(self) -> Hashable:
        return Expiry, self.expired


@final
@dataclass(frozen=True, slots=True)
class AtLeast(Condition):
    """The item is trusted at least this far."""

    trust: Trust

    def matches(self, item: MemoryItem) -> bool:
        return trust_of(item) >= self.trust


@final
@dataclass(frozen=True, slots=True)
class InBranch(Condition, bounds_scope=True):
    """The item belongs to a forked session or to the past that it shares.

    ``pasts`` are sessions, each with the place in the order of adding up to which it is shared: of the items that are
    this ``user``'s, and pass what ``within`` asks for. ``archived`` is that of the filter: an item of the past counts
    as archived only if the summary that stands for it is of the past, too. Only an engine knows places, so that a store
    with the capability ``fork`` translates this kind.
    """

    session: str
    user: str | None
    pasts: tuple[tuple[str, int], ...]
    archived: bool | None
    within: tuple[Condition, ...] = ()

    def matches(self, item: MemoryItem) -> bool:
        """Raise UnsupportedError: an item does not know its place."""
        raise UnsupportedError("This store", "reading a forked session")

    def shares(self, item: MemoryItem) -> bool:
        """Return True if an item of a past is shared, for engines that find it by its session and place."""
        is_theirs = item.metadata.user_id == self.user and item.memory_type != "branch"
        return is_theirs and all(condition.matches(item) for condition in self.within)

    def sessions(self) -> list[tuple[str, bool, tuple[Condition, ...]]]:
        """Return the sessions to read, each with the archived state and the further conditions.

        Engines have indexes for each of them.
        """
        kinds = (False, True) if self.archived is None else (self.archived,)
        found: list[tuple[str, bool, tuple[Condition, ...]]] = [(self.session, kind, ()) for kind in kinds]
        for session, upto in self.pasts:
            for kind in (False, True):
                if kind and self.archived is not None:
                    past = Past(self.user, upto, "shared" if self.archived else "later")
                elif kind in kinds:
                    past = Past(self.user, upto)
                else:
                    continue
                found.append((session, kind, (past, *self.within)))
        return found


@final
@dataclass(frozen=True, slots=True)
class Past(Condition, bounds_scope=True):
    """The item belongs to a user and was added up to a place; its summary is from the past too, or later.

    The record of a branch is no part of a past. Like :class:`InBranch`, of which it is a part, it is for an engine to
    translate.
    """

    user: str | None
    upto: int
    summary: Literal["shared", "later"] | None = None

    def matches(self, item: MemoryItem) -> bool:
        """Raise UnsupportedError: an item does not know its place."""
        raise UnsupportedError("This store", "reading a forked session")


def metadata_conditions(metadata: MemoryMetadata | None) -> tuple[Condition, ...]:
    """Return the conditions of a metadata filter, the ids first."""
    if metadata is None:
        return ()
    held = metadata.__dict__
    fields = _in_scope(*ids_of(held))
    if not held["namespace"] and not held["extra"]:
        return fields
    place = [Below(held["namespace"])] if held["namespace"] else []
    return (*fields, *place, *(ExtraEquals(key, value) for key, value in held["extra"].items()))


@lru_cache(maxsize=1024)
def _in_scope(*ids: str | None) -> tuple[Condition, ...]:
    """Return the conditions of ids, cached for all searches of a conversation."""
    return tuple(InScope(name, value) for name, value in zip(SCOPE_FIELDS, ids, strict=True) if value is not None)
