"""The steps of a history, which can be done on a store and on the model: calls, and what happens around them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import BUILTIN_TYPES, MemoryItem, MemoryMetadata
from memoranda.store import SearchMode, Store, copy_item
from memoranda_testing.case import moment

WRITES = frozenset(
    {
        *("add", "add_many", "append", "apply", "update", "update_many", "touch", "sweep"),
        *("clear", "pop", "delete", "restore", "purge", "fork"),
    }
)
"""The methods that change what is stored."""


BRANCH = "branch-"
"""How the id of every forked session begins."""

_TYPES = ("note", "item", "item", "system", "item", "human")


@dataclass(frozen=True)
class Many:
    """Many numbered items, for histories about sizes."""

    prefix: str
    count: int
    metadata: MemoryMetadata
    content: str = "tea {}"
    own_session: bool = False
    """True puts each item in a session of its own."""
    own_place: bool = False
    """True puts each item in a namespace of its own, three of them below one."""
    version: int = 0
    start: int = 0
    varied: bool = False
    """True gives items different types, payloads and further metadata, other ones for another version."""

    def items(self) -> list[MemoryItem]:
        """Return the items; groups of seven share a time, so that pages end among ties."""
        return [self._item(number) for number in range(self.start, self.start + self.count)]

    def _item(self, number: int) -> MemoryItem:
        own: dict[str, Any] = {"session_id": f"{self.prefix}{number:05}"} if self.own_session else {}
        if self.own_place:
            own["namespace"] = (*self.metadata.namespace, f"{number // 3:05}", str(number))
        # A caller may change the item that it holds.
        variety = number + self.version if self.varied else 1
        extra = {**self.metadata.extra, **({"n": variety % 5} if self.varied else {})}
        metadata = self.metadata.model_copy(update={**own, "extra": extra})
        second = number // 7 ^ 1  # Every other group is older than the one that was added before it.
        kind = _TYPES[variety % len(_TYPES)] if self.varied else "item"
        return BUILTIN_TYPES.get(kind, MemoryItem)(
            id=f"{self.prefix}{number:05}",
            content=self.content.format(number),
            metadata=metadata,
            memory_type=kind,
            payload=None if variety % 2 else f'["{variety}"]',
            archived_by="s" if self.own_session and variety % 4 == 0 else None,
            created_at=f"2024-03-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}+00:00",
            version=self.version,
        )


@dataclass(frozen=True)
class ManyIds:
    """The ids of :class:`Many` items."""

    prefix: str
    count: int
    start: int = 0

    def ids(self) -> list[str]:
        """Return the ids."""
        return [f"{self.prefix}{number:05}" for number in range(self.start, self.start + self.count)]


def spelled_out(value: Any) -> Any:
    """Return an argument as the store gets it: a copy."""
    if isinstance(value, Many):
        return value.items()
    if isinstance(value, ManyIds):
        return value.ids()
    if isinstance(value, MemoryItem):
        return copy_item(value)
    if isinstance(value, Mapping):
        return {key: spelled_out(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(spelled_out(inner) for inner in value)
    return value


@dataclass(frozen=True)
class Call:
    """One public method with its arguments, on a plain store or a scoped handle, of the first or second instance."""

    method: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    scope: MemoryMetadata | None = None
    instance: int = 0

    @property
    def writes(self) -> bool:
        """True if it can change what is stored."""
        return self.method in WRITES or bool(self.arguments.get("refresh"))


def writing(method: str, items: Sequence[MemoryItem], **further: Any) -> Call:
    """Return a call of a method that stores items; those for one item take the first."""
    if method in ("add", "update"):
        return Call(method, {"item": items[0], **further})
    return Call(method, {"adds" if method == "apply" else "items": items, **further})


@dataclass(frozen=True)
class Together:
    """Calls made at the same time; some order of them explains the answers."""

    calls: tuple[Call, ...]


@dataclass(frozen=True)
class Cancelled:
    """A call that is cancelled when it waits for the n-th time; it is done whole or not at all."""

    call: Call
    at: int
    by_item: bool = False
    """True if it may be done for some items, each of them whole."""


@dataclass(frozen=True)
class Moved:
    """The clock is moved forward, or back after a sweep."""

    seconds: float


@dataclass(frozen=True)
class Reopened:
    """The store is closed, and the same data is opened in a new one."""


@dataclass(frozen=True)
class SeenOutside:
    """Another process opens the same data and reads it, while the store stays open here."""


@dataclass(frozen=True)
class RankedAfresh:
    """Everything of an owner is ranked as if it had just been added: no ranking has kept anything of a past."""

    owner: MemoryMetadata
    queries: tuple[str, ...]
    modes: tuple[SearchMode, ...]


@dataclass(frozen=True)
class Copied:
    """Everything within these bounds is copied to a store in memory by public methods, and each session compared."""

    bounds: MemoryMetadata | None = None
    restored: bool = False
    """True if what is deleted is copied as well, and brought back in the copy."""


COPY = 2
"""The instance of a call that is made on the copy."""

Step = Call | Together | Cancelled | Moved | Reopened | SeenOutside | RankedAfresh | Copied

Program = Iterator[Step]
"""Steps that are written down with :class:`Calls`, as if they used a store."""


class Calls:
    """Writes calls down instead of making them: ``store.search(limit=3)`` is the call, to be made later."""

    def __init__(self, scope: MemoryMetadata | None = None, instance: int = 0, *, hides: bool = True) -> None:
        self._scope = scope
        self._instance = instance
        self._hides = hides

    def scoped(self, **scope: Any) -> Calls:
        """Return a handle that is bound to a scope, which writes its calls down as well."""
        return self.of(MemoryMetadata(**scope))

    def of(self, scope: MemoryMetadata) -> Calls:
        """Return a handle that is bound to this scope."""
        return Calls(scope, self._instance, hides=self._hides)

    def another(self) -> Calls:
        """Return another store on the same data; its case takes ``reopen``."""
        return Calls(self._scope, 1, hides=self._hides)

    def everything(self, **filters: Any) -> Call:
        """Return a scan in the order of adding; it yields deleted items as well, if the store hides any."""
        shown = {"include_deleted": True} if self._hides else {}
        return Call("scan", {**filters, "order": "added", **shown}, self._scope, self._instance)

    def __getattr__(self, method: str) -> Callable[..., Call]:
        signature = inspect.signature(getattr(Store, method))

        def called(*args: Any, **kwargs: Any) -> Call:
            given = dict(zip(list(signature.parameters)[1:], args, strict=False))
            return Call(method, {**given, **kwargs}, self._scope, self._instance)

        return called


def mine(**fields: Any) -> MemoryMetadata:
    """Return metadata of the user whom most programs are about."""
    return MemoryMetadata(**{"user_id": "ada", **fields})


def theirs(**fields: Any) -> MemoryMetadata:
    """Return metadata of another user."""
    return MemoryMetadata(**{"user_id": "bob", **fields})


def item(content: str, second: int = 0, metadata: MemoryMetadata | None = None, **fields: Any) -> MemoryItem:
    """Return a note of a second of a fixed day, whose id is its content if none is given."""
    plain = {"id": content, "memory_type": "note", "created_at": moment(second), "metadata": metadata or mine()}
    return MemoryItem(content=content, **{**plain, **fields})


def items(*contents: str, second: int | None = None, **fields: Any) -> list[MemoryItem]:
    """Return a note for each content, a second apart, or all of one second."""
    return [item(text, number if second is None else second, **fields) for number, text in enumerate(contents)]
