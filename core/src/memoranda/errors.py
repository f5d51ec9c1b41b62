"""Every error that memoranda raises, under one root.

Each class builds its own sentence from the facts it is given: what was asked, where, and what to do about it. Where a
builtin already means the same thing it is mixed in, so that ``except ValueError`` or ``except ConnectionError`` work.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence


class MemoryError(Exception):
    """The root of every error that memoranda raises on purpose."""


MemorandaError = MemoryError


class InputError(MemoryError, ValueError):
    """An argument or an item that no store can take; ``field`` names the part that is wrong."""

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class PluginError(MemoryError):
    """Something is wrong with a plugin, or with finding one."""


class PluginNotFoundError(PluginError, LookupError):
    """Nothing that is installed has this name."""

    def __init__(self, kind: str, name: str, *, known: Iterable[str] = (), remedy: str = "") -> None:
        installed = ", ".join(sorted(known)) or "none"
        message = f"No {kind} is called {name!r}. Installed: {installed}."
        super().__init__(f"{message} {remedy}".rstrip())
        self.kind = kind
        self.name = name
        self.remedy = remedy


class UnknownSchemeError(PluginNotFoundError):
    """A store URL whose scheme no installed backend claims."""

    def __init__(self, scheme: str, *, known: Iterable[str] = (), remedy: str = "") -> None:
        super().__init__("store URL scheme", scheme, known=known, remedy=remedy)


class PluginLoadError(PluginError):
    """A plugin was found and could not be loaded."""

    def __init__(self, plugin: str, reason: str) -> None:
        super().__init__(f"The plugin {plugin!r} could not be loaded: {reason}")
        self.plugin = plugin
        self.reason = reason


class PluginConflictError(PluginError):
    """Two plugins claim the same name."""

    def __init__(self, kind: str, name: str, plugins: Sequence[str]) -> None:
        claimants = " and ".join(repr(plugin) for plugin in plugins)
        super().__init__(
            f"The {kind} {name!r} is claimed by {claimants}. Uninstall one of them, or name the one to use in "
            f"MEMORANDA_PLUGINS."
        )
        self.kind = kind
        self.name = name
        self.plugins = tuple(plugins)


class PluginIncompatibleError(PluginError):
    """A plugin was written for another version of the plugin interface."""

    def __init__(self, plugin: str, wants: object, offers: int) -> None:
        super().__init__(
            f"The plugin {plugin!r} is written for plugin API {wants!r} and this memoranda offers {offers}. "
            f"Upgrade the older of the two."
        )
        self.plugin = plugin


class StoreError(MemoryError):
    """A store could not do what it was asked."""


class StoreClosedError(StoreError, RuntimeError):
    """The store was closed, or never opened."""

    def __init__(self, store: str, *, opened: bool = True) -> None:
        state = "is closed" if opened else "is not open yet"
        super().__init__(f"{store} {state}. Use it inside 'async with', or call init() first.")


class StoreUnavailableError(StoreError, ConnectionError):
    """The engine cannot be reached, did not answer in time, or refused us. Nothing unacknowledged was promised."""


class StoreNotFoundError(StoreError, LookupError):
    """The store to read or change does not exist; ``alike`` are the URLs of stores with similar names."""

    def __init__(self, store: str, alike: Sequence[str] = ()) -> None:
        remedy = f"Did you mean {' or '.join(alike)}?" if alike else "Check the URL; adding a first memory creates it."
        super().__init__(f"{store} does not exist. {remedy}")
        self.alike = tuple(alike)


class WrappedStoreError(StoreError):
    """A store that needs a wrapper, such as encryption, was opened without it."""

    def __init__(self, store: str, prefix: str) -> None:
        address = f"{prefix}+{store}" if "://" in store else f"{prefix}+URL"
        super().__init__(
            f"{store} is {prefix}, and this handle goes around that: nothing was read or written. Open it as "
            f"{address!r}."
        )
        self.prefix = prefix


class StoreMisuseError(StoreError, RuntimeError):
    """A store is used in the wrong process, or its connection in the wrong event loop."""


class UnsupportedError(StoreError, NotImplementedError):
    """A capability that this store does not have."""

    def __init__(self, store: str, capability: str, *, remedy: str = "") -> None:
        super().__init__(f"{store} does not support {capability}. {remedy}".rstrip())
        self.capability = capability


class ConflictError(StoreError):
    """The stored state does not allow the change; nothing was changed."""


class IdConflictError(ConflictError):
    """The id is taken by an item that this caller may not replace.

    The message says nothing of the other item: this caller must not learn whose it is.
    """

    def __init__(self, item_id: str) -> None:
        super().__init__(
            f"The id {item_id!r} belongs to an item outside this scope. Nothing was changed; use a new id."
        )
        self.item_id = item_id


class VersionConflictError(ConflictError):
    """The stored version is not the one the caller last saw."""

    def __init__(self, item_id: str, expected: int, found: int | None) -> None:
        now = "there is no such item" if found is None else f"the store has version {found}"
        wanted = "a new item" if expected == 0 else f"version {expected}"
        super().__init__(
            f"The item {item_id!r} was to be changed from {wanted}, but {now}. Nothing was changed; read it again."
        )
        self.item_id = item_id
        self.expected = expected
        self.found = found


class TurnConflictError(ConflictError):
    """The conversation has gone on since the caller read it."""

    def __init__(self, expected: str | None, found: str | None) -> None:
        wanted = "be empty" if expected is None else f"end with the item {expected!r}"
        now = "is empty" if found is None else f"ends with {found!r}"
        super().__init__(
            f"The conversation was to {wanted}, but it {now}. Nothing was stored; read it again before you answer."
        )
        self.expected = expected
        self.found = found


class NotGrantedError(StoreError, PermissionError):
    """The user of the handle may not do this in the space; nothing was read or changed."""

    def __init__(self, who: str, space: str, may: str) -> None:
        super().__init__(
            f"{who} may not {may} the space {space!r}. Nothing was read or changed; ask somebody who manages it for a "
            f"grant."
        )
        self.who = who
        self.space = space
        self.may = may


class CorruptStoreError(StoreError):
    """The content of the engine cannot be read as memories."""


class SchemaTooNewError(StoreError):
    """The store was written by a later release; it was left untouched."""

    def __init__(self, store: str, found: int, supported: int) -> None:
        super().__init__(
            f"{store} has schema version {found} and this release knows up to {supported}. Nothing was touched; "
            f"upgrade memoranda."
        )
        self.found = found
        self.supported = supported


class SummaryError(MemoryError):
    """A summary could not be made; nothing was changed."""


class SummarizerUnavailableError(SummaryError, ConnectionError):
    """A summarizer's provider cannot be reached, did not answer in time, or is overloaded; nothing was changed."""


class EmbeddingError(MemoryError):
    """An embedder could not return the vectors; nothing was changed."""


class EmbeddingUnavailableError(EmbeddingError, ConnectionError):
    """An embedder's provider cannot be reached, did not answer in time, or is overloaded; nothing was changed."""


class BadVectorError(EmbeddingError, ValueError):
    """An embedder returned something other than a vector of its dimension; nothing was changed."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"The embedder gave a vector that cannot be used: {reason}. Nothing was changed.")
        self.reason = reason


class NoVectorsError(StoreError):
    """The store holds no vectors yet, so nothing in it can be found by meaning."""

    def __init__(self, store: str) -> None:
        super().__init__(
            f"{store} holds no vectors yet. Call reindex(), or run 'memoranda reindex' with the same embedder."
        )


class OtherModelError(StoreError):
    """The stored vectors come from another embedder; they were left unchanged."""

    def __init__(self, store: str, stored: str, given: str) -> None:
        super().__init__(
            f"{store} holds vectors of {stored} and was opened with {given}, which cannot be compared. Open it with "
            f"{stored}, or call reindex(). Search by text goes on working meanwhile."
        )
        self.stored = stored
        self.given = given


def quoted(value: object, *, text: bool = False) -> str:
    """Return how an error message shows a value: a number as it is, anything else by its type.

    With ``text``, a short text is shown too. Use it only for names: other text may belong to a conversation. Python
    refuses to write out integers of thousands of digits.
    """
    if value is None:
        return "nothing"
    if isinstance(value, int) and abs(value) >= 10**18:
        return "an integer of many digits"
    if isinstance(value, (int, float)) or (text and isinstance(value, str) and len(value) <= 80):
        return repr(value)
    return f"a value of type {type(value).__name__}"


def unknown_name(kind: str, value: object, known: Iterable[str], *, field: str) -> InputError:
    """Return the error for a name that is not one of the known ones."""
    return InputError(f"Unknown {kind}: {quoted(value, text=True)}. Use one of: {', '.join(known)}.", field=field)
