"""What a filter matches: the one meaning that every backend follows.

A backend either calls :meth:`Filter.matches` or translates a :class:`Filter` into its engine's language with the same
result; the conformance kit compares the two. ``None`` is any; every other value, the empty text too, must match.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypedDict, get_args

from memoranda.errors import InputError, unknown_name
from memoranda.items import SCOPE_FIELDS, MemoryItem, MemoryMetadata, MemoryStatus
from memoranda.shapes import check_text, each, whole_number
from memoranda.store.checks import check_metadata
from memoranda.store.conditions import (
    Archived,
    AtLeast,
    Condition,
    Contains,
    Created,
    Expiry,
    FieldEquals,
    InBranch,
    fold,
    json_equal,
    metadata_conditions,
)
from memoranda.store.owners import is_below
from memoranda.store.values import NO_RECORDS, Value, moment_text, value_conditions
from memoranda.trust import check_trust

Kinds = str | Iterable[str]
"""One memory type, or several of which an item must have one."""

Moment = str | datetime
"""A point in time: ISO-8601 text, or a datetime that knows its zone."""


class Narrowing(TypedDict, total=False):
    """What narrows every call that takes a filter, by keyword: see :meth:`memoranda.store.Store.search`."""

    since: Moment | None
    until: Moment | None
    where: Mapping[str, Any] | None
    min_trust: str | None


def check_status(status: MemoryStatus | str) -> MemoryStatus:
    """Return the status, or raise InputError for an unknown one."""
    try:
        return MemoryStatus(status)
    except ValueError:
        raise unknown_name("status", status, MemoryStatus, field="status") from None


def extra_matches(wanted: dict[str, Any], found: dict[str, Any]) -> bool:
    """Return True if every wanted key is there with an equal value."""
    return all(key in found and json_equal(value, found[key]) for key, value in wanted.items())


def metadata_matches(wanted: MemoryMetadata | None, found: MemoryMetadata) -> bool:
    """Return True if metadata passes a metadata filter; ``None`` passes everything."""
    if wanted is None:
        return True
    held, asked = found.__dict__, wanted.__dict__
    for name in SCOPE_FIELDS:
        value = asked[name]
        if value is not None and held[name] != value:
            return False
    place = asked["namespace"]
    if place and not is_below(held["namespace"], place):
        return False
    extra = asked["extra"]
    return not extra or extra_matches(extra, held["extra"])


def names_nothing(metadata: MemoryMetadata) -> bool:
    """Return True if a metadata filter has no condition at all."""
    named = any(getattr(metadata, name) is not None for name in SCOPE_FIELDS)
    return not (named or metadata.extra or metadata.namespace)


def check_clearing(metadata: MemoryMetadata | None) -> None:
    """Raise InputError for what is no metadata filter, and for an empty one: clearing all is asked for without any."""
    named = check_filter(metadata)
    if named is not None and names_nothing(named):
        raise InputError(
            "An empty MemoryMetadata would remove everything, which is rarely meant. Name a user, session, task, "
            "agent or namespace; or leave metadata out to remove all.",
            field="metadata",
        )


def check_filter(metadata: MemoryMetadata | None, field: str = "metadata") -> MemoryMetadata | None:
    """Return the metadata filter, or raise InputError if it is not one or could match nothing."""
    if metadata is not None:
        if not isinstance(metadata, MemoryMetadata):
            raise InputError(f"{field} must be a MemoryMetadata, not {type(metadata).__name__}.", field=field)
        check_metadata(metadata, field)
    return metadata


_ARCHIVED, _SHOWN = Archived(True), Archived(False)
_RECORDS = [each.value for each in NO_RECORDS]


def _divided(conditions: Iterable[Condition]) -> tuple[list[Condition], list[Condition]]:
    """Return the conditions that say where to look, and the others; in a ranking's scope there are no records."""
    bounding: list[Condition] = []
    others: list[Condition] = []
    for condition in conditions:
        # The value is compared first: of two conditions, every field would be.
        is_of_records = type(condition) is Value and condition.value in _RECORDS and condition in NO_RECORDS
        (bounding if condition.bounds_scope or is_of_records else others).append(condition)
    return bounding, others


@dataclass(frozen=True, slots=True)
class Filter:
    """Selects items. Build it with :meth:`of`, which checks every part.

    ``query`` is a literal, case-insensitive substring of the content. ``archived`` is False for items that no summary
    stands for (what searches show), True for the others, None for both. ``further`` are conditions of other kinds.
    All of these together are ``conditions``: what a backend translates.
    """

    query: str = ""
    metadata: MemoryMetadata | None = None
    memory_type: str | tuple[str, ...] | None = None
    status: MemoryStatus | None = None
    archived: bool | None = False
    further: tuple[Condition, ...] = ()
    # Worked out when somebody asks: an engine asks for one of them, and many filters only lead to others.
    _tests: tuple[Callable[[MemoryItem], bool], ...] | None = field(default=None, init=False, repr=False, compare=False)
    _others: tuple[Condition, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def folded(self) -> str:
        """The query as :class:`Contains` compares it."""
        return fold(self.query)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All conditions, the metadata first."""
        return (*metadata_conditions(self.metadata), *self._beyond_metadata())

    @property
    def tests(self) -> tuple[Callable[[MemoryItem], bool], ...]:
        """What is asked of an item beyond its metadata and, where ``archived`` is False, that none stands for it."""
        tests = self._tests
        if tests is None:
            tests = tuple([other.test() for other in self._beyond_metadata() if other is not _SHOWN])
            object.__setattr__(self, "_tests", tests)
        return tests

    def _beyond_metadata(self) -> tuple[Condition, ...]:
        if self._others is not None:
            return self._others
        others: list[Condition] = [] if self.archived is None else [_ARCHIVED if self.archived else _SHOWN]
        if isinstance(self.memory_type, str):
            others.append(FieldEquals("memory_type", self.memory_type))
        elif self.memory_type is not None:
            others.append(Value("memory_type", False, "$in", list(self.memory_type)))
        if self.status is not None:
            others.append(FieldEquals("status", self.status))
        if self.query:
            others.append(Contains(self.folded))
        found = (*others, *self.further)
        object.__setattr__(self, "_others", found)
        return found

    @classmethod
    def of(
        cls,
        *,
        query: str = "",
        metadata: MemoryMetadata | None = None,
        memory_type: Kinds | None = None,
        status: MemoryStatus | str | None = None,
        archived: bool | None = False,
        since: Moment | None = None,
        until: Moment | None = None,
        where: Mapping[str, Any] | None = None,
        min_trust: str | None = None,
        now: str | None = None,
    ) -> Filter:
        """Return a checked filter. Raises InputError, naming the argument, if it could match nothing.

        ``since``, ``until``, ``where`` and ``min_trust`` become conditions in ``further``, and so does ``now``: items
        whose life is over by then do not match.
        """
        if query:
            check_text(query, "query")
        check_filter(metadata)
        one = memory_type is None or isinstance(memory_type, str)
        kinds: Any = memory_type if one else tuple(each(memory_type, "memory_type", "memory types"))
        for kind in [kinds] if isinstance(kinds, str) else kinds or ():
            check_text(kind, "memory_type")
        further: list[Condition] = []
        if since is not None or until is not None:
            bounds = (("since", since), ("until", until))
            further.append(Created(*[None if at is None else moment_text(at, name) for name, at in bounds]))
        if where:
            further += value_conditions(where)
        if min_trust is not None:
            further.append(AtLeast(check_trust(min_trust, "min_trust")))
        if now is not None:
            further.append(Expiry(now))
        known = None if status is None else check_status(status)
        return cls(query or "", metadata, kinds, known, archived, tuple(further))

    def also(self, *conditions: Condition) -> Filter:
        """Return this filter with further conditions."""
        further = (*self.further, *conditions)
        return Filter(self.query, self.metadata, self.memory_type, self.status, self.archived, further)

    def matches(self, item: MemoryItem) -> bool:
        """Return True if the item passes every condition."""
        held = item.__dict__
        if self.archived is False and held["archived_by"] is not None:
            return False
        if not metadata_matches(self.metadata, held["metadata"]):
            return False
        for passes in self.tests:  # noqa: SIM110 - a generator would take longer than the tests
            if not passes(item):
                return False
        return True

    __call__ = matches

    def scope(self) -> Filter:
        """Return the part of this filter that says where to look: see :attr:`Condition.bounds_scope`."""
        return Filter("", self.metadata, None, None, self.archived, tuple(_divided(self.further)[0]))

    def sought(self) -> Filter:
        """Return the part of this filter that says what to look for, for items already read from its scope."""
        return Filter(self.query, None, self.memory_type, self.status, None, tuple(_divided(self.further)[1]))

    def timeless(self) -> tuple[Filter, str]:
        """Return this filter without its condition on expiry, and the time of that; an empty text if it has none.

        Engines compare it with the filter of an earlier call: only the time may differ.
        """
        alive = [each for each in self.further if isinstance(each, Expiry) and not each.expired]
        further = tuple(each for each in self.further if each not in alive)
        return replace(self, further=further), alive[0].now if alive else ""

    def parts(self) -> tuple[Filter, ...]:
        """Return filters of single sessions that together match the same items, each item once.

        That is the filter itself, unless it names a forked session: see :class:`InBranch`.
        """
        branch = next((condition for condition in self.further if type(condition) is InBranch), None)
        if branch is None:
            return (self,)
        others = tuple(condition for condition in self.further if condition is not branch)
        named = self.metadata or MemoryMetadata()
        return tuple(
            replace(
                self,
                metadata=named.model_copy(update={"session_id": session}),
                archived=archived,
                further=(*others, *past),
            )
            for session, archived, past in branch.sessions()
        )

    def narrowed(self, scope: MemoryMetadata) -> Filter:
        """Return this filter with a scope's conditions added. Raises InputError when the two contradict each other."""
        if self.metadata is scope:
            return self
        return replace(self, metadata=merge_scope(self.metadata, scope))


def merge_scope(metadata: MemoryMetadata | None, scope: MemoryMetadata | None) -> MemoryMetadata | None:
    """Return both filters as one. Raises InputError when they name different values: a scope is never widened."""
    if metadata is None or scope is None:
        return metadata or scope
    values: dict[str, Any] = {"extra": dict(metadata.extra)}
    for name in SCOPE_FIELDS:
        asked, bound = getattr(metadata, name), getattr(scope, name)
        if asked is not None and bound is not None and asked != bound:
            raise InputError(f"metadata.{name} names another {name} than the scope of this handle.", field=name)
        values[name] = bound if asked is None else asked
    values["namespace"] = max(metadata.namespace, scope.namespace, key=len)
    if not is_below(values["namespace"], metadata.namespace) or not is_below(values["namespace"], scope.namespace):
        raise InputError("metadata.namespace lies outside the scope of this handle.", field="namespace")
    for key, value in scope.extra.items():
        if key in metadata.extra and not json_equal(value, metadata.extra[key]):
            raise InputError(f"metadata.extra[{key!r}] is another value than the scope of this handle.", field="extra")
        values["extra"][key] = value
    return MemoryMetadata(**values)


EVERYTHING = 2**62
"""A limit that means all; it fits every engine's integer."""

Order = Literal["created", "added", "updated"]
"""What goes before what: by the items' own times, or by the order in which the store took them.

``"added"`` is the order of a conversation: clocks that were set back, or that differ between hosts, do not change it,
and an item that is replaced or restored keeps its place. ``"created"`` and ``"updated"`` are by ``created_at`` and
``updated_at``; items of equal time are in the order of their adding.
"""

_ORDERS = get_args(Order)


def check_order(order: Order) -> Order:
    """Return the order, or raise InputError for an unknown one."""
    if order not in _ORDERS:
        raise unknown_name("order", order, _ORDERS, field="order")
    return order


def in_order(items: Iterable[MemoryItem], order: Order) -> list[MemoryItem]:
    """Sort items, which come in the order of adding, oldest first."""
    if order == "added":
        return list(items)
    return sorted(items, key=lambda item: item.created_at if order == "created" else item.updated_at)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing that is newest first: ``limit`` items (at least 1) after the first ``offset``."""

    limit: int = EVERYTHING
    offset: int = 0
    order: Order = "created"

    @classmethod
    def checked(cls, limit: int, offset: int, order: Order) -> Page:
        """Return the page of these arguments; a limit of 0 stays 0. Raises InputError for invalid ones."""
        limit, offset = whole_number(limit, "limit"), whole_number(offset, "offset")
        return cls(min(limit, EVERYTHING), min(offset, EVERYTHING), check_order(order))

    @property
    def end(self) -> int:
        """The number of items up to the end of the page."""
        return min(self.offset + self.limit, EVERYTHING)

    def of(self, items: Iterable[MemoryItem]) -> list[MemoryItem]:
        """Return the page of these items, which come in the order in which they were added."""
        return in_order(items, self.order)[::-1][self.offset : self.end]
