"""Finding plugins: each is loaded by itself, so that one that fails is only a row with its reason."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import cache
from importlib.metadata import EntryPoint
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Literal

from memoranda.errors import (
    InputError,
    MemoryError,
    PluginConflictError,
    PluginError,
    PluginLoadError,
    PluginNotFoundError,
    UnknownSchemeError,
)
from memoranda.plugins import builtin as _builtin
from memoranda.plugins import hookspecs
from memoranda.plugins.hookspecs import KINDS, Backend, CommandSpec, ItemTypeSpec, ObserverSpec, Spec, SpecT
from memoranda.plugins.installing import (
    COMMAND_OFFERED_BY,
    CORE,
    OFFERED_BY,
    OPTION_OFFERED_BY,
    OURS,
    how_to_install,
)
from memoranda.plugins.loading import Plugin, Status, collect, described, installed, load, sentence

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda.items import MemoryItem
    from memoranda.plugins.observers import Observer

logger = logging.getLogger(__name__)

ALLOW_VARIABLE = "MEMORANDA_PLUGINS"

_SCHEME = "URL scheme"
_Claim = tuple[Plugin, Spec]


class Registry:
    """The plugins of one environment, found when they are first asked for.

    ``sources`` are entry points; by default those of the installed distributions. ``allow`` names the plugins that may
    be loaded, by entry point or distribution; None allows all, and by default the environment's ``MEMORANDA_PLUGINS``
    decides, a comma-separated list (empty: none).
    """

    def __init__(
        self,
        sources: Iterable[EntryPoint] | None = None,
        *,
        allow: Iterable[str] | Literal["environment"] | None = "environment",
    ) -> None:
        self._sources = sources
        self._allow = _allowed_by_environment() if allow == "environment" else None if allow is None else set(allow)
        self._plugins: list[Plugin] | None = None
        self._finding = False
        self._lock = threading.RLock()
        self._claimed: dict[tuple[str, str], list[_Claim]] = {}  # By kind, or "URL scheme", and name.
        self._missed: set[str] = set()

    @property
    def plugins(self) -> list[Plugin]:
        """Every plugin that was found, the core first and the others by name, with its status and reason."""
        with self._lock:  # Two threads that open their first stores at once must not both claim every name.
            if self._plugins is None:
                if self._finding:
                    raise PluginError("A plugin asked for the plugins while they were being loaded.")
                self._finding = True
                try:
                    found = list(self._found())
                finally:
                    self._finding = False
                found[1:] = sorted(found[1:], key=lambda plugin: (plugin.name, plugin.distribution))
                # Our own claim their names first, so that no other plugin takes one away.
                for plugin in sorted(found, key=lambda plugin: plugin.distribution not in OURS):
                    self._claim(plugin)
                self._record_conflicts()
                self._plugins = found
            return self._plugins

    def specs(self, kind: type[SpecT]) -> list[SpecT]:
        """Return the usable specs of a kind, by name."""
        usable = [spec for spec in self._usable(KINDS[kind]).values() if isinstance(spec, kind)]
        return sorted(usable, key=lambda spec: spec.name)

    def find(self, kind: type[SpecT], name: str) -> SpecT:
        """Return the spec of this name. Raises PluginNotFoundError, saying what to install, or PluginConflictError."""
        spec = self._spec(KINDS[kind], name)
        if isinstance(spec, kind):
            return spec
        known = self._usable(KINDS[kind])
        offered_by = {CommandSpec: COMMAND_OFFERED_BY, ObserverSpec: {**OFFERED_BY, **OPTION_OFFERED_BY}}
        remedy = self._remedy(name, known, offered_by.get(kind, OFFERED_BY))
        raise PluginNotFoundError(KINDS[kind], name, known=known, remedy=remedy)

    def backend(self, scheme: str) -> Backend:
        """Return the backend of a URL scheme. Raises UnknownSchemeError or PluginConflictError."""
        spec = self._spec(_SCHEME, scheme)
        if isinstance(spec, Backend):
            return spec
        known = self._usable(_SCHEME)
        raise UnknownSchemeError(scheme, known=known, remedy=self._remedy(scheme, known, OFFERED_BY))

    def _spec(self, kind: str, name: str) -> Spec | None:
        claims = self._claims().get((kind, name), [])
        if len(claims) > 1:
            raise _conflict(kind, name, claims)
        return claims[0][1] if claims else None

    def _usable(self, kind: str) -> dict[str, Spec]:
        """Return the specs of a kind by name, without the names that several plugins claim."""
        named = self._claims().items()
        return {name: claims[0][1] for (of_kind, name), claims in named if of_kind == kind and len(claims) == 1}

    def load(self, spec: Spec) -> Any:
        """Import what a spec names. Raises PluginLoadError with the reason."""
        try:
            return resolve_name(spec.target)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginLoadError(spec.name, sentence(error)) from error

    def make(self, spec: Spec, **options: Any) -> Any:
        """Import what a spec names and call it. Raises PluginLoadError with the reason."""
        target = self.load(spec)
        try:
            return target(**options)
        except (MemoryError, KeyboardInterrupt):
            raise
        except BaseException as error:  # not even a plugin's sys.exit() may end the program
            # The text of an error may quote an option, such as a key.
            raise PluginLoadError(spec.name, f"making one failed with {type(error).__name__}.") from error

    def embeddings(self, name: str, **options: Any) -> Embeddings:
        """Return a new embedder of this name, made with the options.

        ``auto`` is the only one installed besides ``hashing``, which knows nothing of meaning; if there are several,
        ``static``, which calls no service. Raises PluginNotFoundError if there is none, and InputError if there are
        several without ``static``.
        """
        if name == "auto":
            others = [spec.name for spec in self.specs(hookspecs.EmbeddingsSpec) if spec.name != "hashing"]
            if len(others) > 1 and "static" not in others:
                raise InputError(f"Which embedder? Installed are {', '.join(others)}: name one.", field="embeddings")
            name = others[0] if len(others) == 1 else "static"
        made: Embeddings = self.make(self.find(hookspecs.EmbeddingsSpec, name), **options)
        return made

    def token_counter(self, name: str) -> Callable[[MemoryItem], int]:
        """Return the token counter of this name."""
        counter: Callable[[MemoryItem], int] = self.load(self.find(hookspecs.TokenCounterSpec, name))
        return counter

    def auto_observers(self) -> list[Observer]:
        """Return a new observer for each that every store gets.

        One that cannot be made is left out: its plugin's row says why, and so does the log, once. If it is required,
        an observer that refuses every add stands in for it.
        """
        made: list[Observer] = []
        for (_, name), claims in self._claims().items():
            autos = [spec for _, spec in claims if isinstance(spec, ObserverSpec) and spec.auto]
            if not autos:
                continue
            try:
                made.append(self.observer(name))
            except MemoryError as error:
                for plugin, _ in claims:
                    self._fail_observer(plugin, name, error)
                if any(spec.required for spec in autos):
                    from memoranda.plugins.observers import MissingObserver

                    made.append(MissingObserver(name, str(error)))
        return made

    def observer(self, name: str, **options: Any) -> Observer:
        """Return a new observer of this name, made with the options."""
        with redirect_stdout(sys.stderr):
            observer: Observer = self.make(self.find(ObserverSpec, name), **options)
        methods = ("before_add", "added", "searched", "cleared")
        if not all(callable(getattr(observer, method, None)) for method in methods):
            raise PluginLoadError(name, f"it is a {type(observer).__name__}, not an observer.")
        return observer

    def _fail_observer(self, plugin: Plugin, name: str, error: MemoryError) -> None:
        reason = f"The observer {name!r} of every store is missing: {error}"
        if plugin.status == "ok" or (plugin.status == "broken" and reason not in plugin.reason):
            plugin.fail("broken", reason)
        if name not in self._missed:
            self._missed.add(name)
            logger.warning("%s 'memoranda plugins' lists it.", reason)

    def item_types(self) -> Mapping[str, type[MemoryItem]]:
        """Return the classes of all item types by name; a plugin's class is imported when an item of it is met."""
        from memoranda.plugins.item_types import ItemTypes  # Only stores need item models; listing plugins does not.

        offered = [spec.name for spec in self.specs(ItemTypeSpec)]
        return ItemTypes(offered, lambda name: self.load(self.find(ItemTypeSpec, name)))

    def _claims(self) -> dict[tuple[str, str], list[_Claim]]:
        assert self.plugins is not None  # Asking for the plugins fills the claims.
        return self._claimed

    def _found(self) -> Iterator[Plugin]:
        from memoranda import __version__  # The package imports this module.

        core = Plugin(CORE, CORE, __version__)
        collect(core, _builtin)
        yield core
        for plugin, source in installed() if self._sources is None else map(described, self._sources):
            if self._allow is not None and not self._allow & {plugin.name, plugin.distribution}:
                plugin.fail("not allowed", f"{ALLOW_VARIABLE} does not name it.")
            elif source is not None:
                load(plugin, source)
            yield plugin

    def _claim(self, plugin: Plugin) -> None:
        for spec in plugin.specs:
            names = [(KINDS[type(spec)], spec.name)]
            if isinstance(spec, Backend):
                names += [(_SCHEME, scheme) for scheme in dict.fromkeys(spec.schemes)]
            for kind, name in names:
                claims = self._claimed.setdefault((kind, name), [])
                if plugin.distribution not in OURS and any(holder.distribution in OURS for holder, _ in claims):
                    plugin.fail("conflict", f"The {kind} {name!r} is memoranda's own.")
                else:
                    claims.append((plugin, spec))

    def _record_conflicts(self) -> None:
        for (kind, name), claims in self._claimed.items():
            if len(claims) > 1:
                reason = str(_conflict(kind, name, claims))
                for plugin, _ in claims:
                    if reason not in plugin.reason:
                        plugin.fail("conflict", reason)

    def _remedy(self, name: str, known: Iterable[str], offered_by: Mapping[str, str]) -> str:
        """Return what would help: a plugin that is there but failed, one to install, or a similar name."""
        for plugin in self.plugins:
            schemes = [scheme for spec in plugin.specs if isinstance(spec, Backend) for scheme in spec.schemes]
            is_meant = name in (plugin.name, *schemes) or offered_by.get(name) == plugin.distribution
            if is_meant and plugin.status != "ok":
                return f"The plugin {plugin.label!r} is installed but {plugin.status}: {plugin.reason}"
        if offering := offered_by.get(name) or offered_by.get(name.partition("+")[0]):
            return f"Try: {how_to_install(offering)}"
        from difflib import get_close_matches  # Imported on use: only a mistake needs it.

        alike = get_close_matches(name, {*known, *offered_by}, 1, 0.75)
        return f"Did you mean {alike[0]!r}?" if alike else "'memoranda plugins' lists what is installed."


@cache
def default_registry() -> Registry:
    """Return the registry of this process's environment, made once."""
    return Registry()


def embedder(given: Embeddings | str | None) -> Embeddings | None:
    """Return the embedder that a backend was given: the object itself, or the installed one of this name."""
    return default_registry().embeddings(given) if isinstance(given, str) else given


def _allowed_by_environment() -> set[str] | None:
    listed = os.environ.get(ALLOW_VARIABLE)
    return None if listed is None else {name.strip() for name in listed.split(",") if name.strip()}


def _conflict(kind: str, name: str, claims: Iterable[_Claim]) -> PluginConflictError:
    return PluginConflictError(kind, name, [plugin.label for plugin, _ in claims])


__all__ = ["ALLOW_VARIABLE", "Plugin", "Registry", "Status", "default_registry"]
