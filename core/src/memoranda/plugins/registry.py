"""Finding plugins: each is loaded by itself, so that one that fails is a row with its reason and nothing more."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint
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
from memoranda.plugins.hookspecs import KINDS, Backend, ItemTypeSpec, ObserverSpec, Spec, SpecT
from memoranda.plugins.installing import CORE, OFFERED_BY, OURS, how_to_install
from memoranda.plugins.loading import Plugin, Status, collect, described, installed, load, sentence

if TYPE_CHECKING:
    from memoranda.embeddings import Embeddings
    from memoranda.items import MemoryItem
    from memoranda.plugins.observers import Observer

logger = logging.getLogger(__name__)

ALLOW_VARIABLE = "MEMORANDA_PLUGINS"


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
        self._owners: dict[tuple[type[Spec], str], list[tuple[Plugin, Spec]]] = {}
        self._schemes: dict[str, list[tuple[Plugin, Backend]]] = {}
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
                # Our own claim their names first, so that nobody takes one away from them.
                for plugin in sorted(found, key=lambda plugin: plugin.distribution not in OURS):
                    self._claim(plugin)
                self._record_conflicts()
                self._plugins = found
            return self._plugins

    def specs(self, kind: type[SpecT]) -> list[SpecT]:
        """Return the usable specs of a kind, by name."""
        usable = [
            spec
            for (of_kind, _), claims in self._claims().items()
            if of_kind is kind and len(claims) == 1
            for _, spec in claims
            if isinstance(spec, kind)
        ]
        return sorted(usable, key=lambda spec: spec.name)

    def find(self, kind: type[SpecT], name: str) -> SpecT:
        """Return the spec of this name. Raises PluginNotFoundError, saying what to install, or PluginConflictError."""
        claims = self._claims().get((kind, name), [])
        if len(claims) > 1:
            raise PluginConflictError(KINDS[kind], name, [plugin.label for plugin, _ in claims])
        for _, spec in claims:
            if isinstance(spec, kind):
                return spec
        known = [spec.name for spec in self.specs(kind)]
        raise PluginNotFoundError(KINDS[kind], name, known=known, remedy=self._remedy(name))

    def backend(self, scheme: str) -> Backend:
        """Return the backend of a URL scheme. Raises UnknownSchemeError or PluginConflictError."""
        self._claims()
        claims = self._schemes.get(scheme, [])
        if len(claims) > 1:
            raise PluginConflictError("URL scheme", scheme, [plugin.label for plugin, _ in claims])
        if not claims:
            known = [name for name, claim in self._schemes.items() if len(claim) == 1]
            raise UnknownSchemeError(scheme, known=known, remedy=self._remedy(scheme))
        return claims[0][1]

    def load(self, spec: Spec) -> Any:
        """Import what a spec names. Raises PluginLoadError with the reason."""
        try:
            return _attribute(spec.target)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginLoadError(spec.name, sentence(error)) from error

    def make(self, spec: Spec, **options: Any) -> Any:
        """Import what a spec names and call it. Raises PluginLoadError with the reason."""
        target = self.load(spec)
        try:
            return target(**options)
        except MemoryError:
            raise
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # not even a plugin's sys.exit() may end the program
            # The text of an error may quote an option, such as a key.
            raise PluginLoadError(spec.name, f"making one failed with {type(error).__name__}.") from error

    def embeddings(self, name: str, **options: Any) -> Embeddings:
        """Return a new embedder of this name, made with the options.

        ``auto`` stands for the one that is installed beside the core's own, which knows nothing of meaning; of several,
        for ``static``, which asks nobody. Raises PluginNotFoundError where there is none, and
        InputError where there are several others.
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

        One that cannot be made is left out: its plugin's row says why, and so does the log, once. In the place of one
        that is required stands an observer that refuses every add.
        """
        made: list[Observer] = []
        for (kind, name), claims in self._claims().items():
            autos = [spec for _, spec in claims if isinstance(spec, ObserverSpec) and spec.auto]
            if kind is not ObserverSpec or not autos:
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

    def observer(self, name: str) -> Observer:
        """Return a new observer of this name."""
        from memoranda.plugins.observers import is_observer

        with redirect_stdout(sys.stderr):
            observer: Observer = self.make(self.find(ObserverSpec, name))
        if not is_observer(observer):
            raise PluginLoadError(name, f"it is a {type(observer).__name__}, which is no observer.")
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

    def _claims(self) -> dict[tuple[type[Spec], str], list[tuple[Plugin, Spec]]]:
        assert self.plugins is not None  # asking for the plugins fills the claims
        return self._owners

    def _found(self) -> Iterator[Plugin]:
        core = Plugin(CORE, CORE, _core_version())
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
            claims = self._owners.setdefault((type(spec), spec.name), [])
            if not self._is_ours(plugin, claims, f"The {KINDS[type(spec)]} {spec.name!r}"):
                claims.append((plugin, spec))
            if isinstance(spec, Backend):
                for scheme in dict.fromkeys(spec.schemes):
                    backends = self._schemes.setdefault(scheme, [])
                    if not self._is_ours(plugin, backends, f"The URL scheme {scheme!r}"):
                        backends.append((plugin, spec))

    def _is_ours(self, plugin: Plugin, claims: list[tuple[Plugin, Any]], what: str) -> bool:
        """Whether one of this project's distributions has this name, in which case a stranger's does not get it."""
        taken = plugin.distribution not in OURS and any(holder.distribution in OURS for holder, _ in claims)
        if taken:
            plugin.fail("conflict", f"{what} is memoranda's own.")
        return taken

    def _record_conflicts(self) -> None:
        clashes: list[tuple[str, str, list[Plugin]]] = []
        for (kind, name), owners in self._owners.items():
            clashes.append((KINDS[kind], name, [plugin for plugin, _ in owners]))
        for scheme, backends in self._schemes.items():
            clashes.append(("URL scheme", scheme, [plugin for plugin, _ in backends]))
        for kind_name, name, plugins in clashes:
            if len(plugins) > 1:
                reason = str(PluginConflictError(kind_name, name, [plugin.label for plugin in plugins]))
                for plugin in plugins:
                    if reason not in plugin.reason:
                        plugin.fail("conflict", reason)

    def _remedy(self, name: str) -> str:
        """Say what would help: a plugin that is there but failed, or one to install."""
        for plugin in self.plugins:
            names = (plugin.name, *_schemes_of(plugin))
            if plugin.status != "ok" and (name in names or OFFERED_BY.get(name) == plugin.distribution):
                return f"The plugin {plugin.label!r} is installed but {plugin.status}: {plugin.reason}"
        if name in OFFERED_BY:
            return f"Try: {how_to_install(OFFERED_BY[name])}"
        return "'memoranda plugins' lists what is installed."


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


def _core_version() -> str:
    from memoranda import __version__

    return __version__


def _attribute(target: str) -> Any:
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _schemes_of(plugin: Plugin) -> list[str]:
    return [scheme for spec in plugin.specs if isinstance(spec, Backend) for scheme in spec.schemes]


__all__ = ["ALLOW_VARIABLE", "Plugin", "Registry", "Status", "default_registry"]
