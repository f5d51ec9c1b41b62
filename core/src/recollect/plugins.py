"""Finding plugins: each is loaded by itself, so that one that fails is a row with its reason and nothing more."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal

import pluggy

from recollect import _builtin, hookspecs
from recollect.errors import (
    PluginConflictError,
    PluginError,
    PluginIncompatibleError,
    PluginLoadError,
    PluginNotFoundError,
    UnknownSchemeError,
)
from recollect.hookspecs import (
    API_VERSION,
    ENTRY_POINT_GROUP,
    HOOKS,
    KINDS,
    Backend,
    ItemTypeSpec,
    Spec,
    SpecT,
)
from recollect.items import BUILTIN_TYPES, MemoryItem

if TYPE_CHECKING:
    from recollect.embeddings import Embeddings
    from recollect.templates import Template

logger = logging.getLogger(__name__)

ALLOW_VARIABLE = "RECOLLECT_PLUGINS"

CORE = "recollect"
"""The name of the plugin that the core itself is. Nobody takes a name away from it."""

INSTALL: Mapping[str, str] = {
    "sqlite": "recollect-sqlite",
    "postgresql": "recollect-postgres",
    "postgres": "recollect-postgres",
    "redis": "recollect-redis",
    "rediss": "recollect-redis",
    "redis+cluster": "recollect-redis",
    "vector": "recollect-vector",
    "openai": "recollect-vector",
    "conversation": "recollect-summary-conversation",
    "facts": "recollect-summary-facts",
    "profiles": "recollect-summary-profiles",
    "episodic": "recollect-redis",
}
"""The distribution to install for each name that this project's own plugins answer to."""

Status = Literal["ok", "broken", "incompatible", "conflict", "not allowed"]


@dataclass(slots=True)
class Plugin:
    """One entry point: what it offers, or why it does not."""

    name: str
    distribution: str
    version: str
    status: Status = "ok"
    reason: str = ""
    specs: list[Spec] = field(default_factory=list)

    @property
    def label(self) -> str:
        """The name, with its distribution where that says more."""
        return self.name if self.name == self.distribution else f"{self.name} ({self.distribution})"

    def fail(self, status: Status, reason: str) -> None:
        """Record the first thing that is wrong; further ones are added to its reason."""
        if self.status == "ok":
            self.status = status
        self.reason = f"{self.reason} {reason}".strip()


class Registry:
    """The plugins of one environment, found when they are first asked for.

    ``sources`` are entry points; by default those of the installed distributions. ``allow`` names the plugins that may
    be loaded, by entry point or distribution; None allows all, and by default the environment's ``RECOLLECT_PLUGINS``
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
        self._owners: dict[tuple[type[Spec], str], list[tuple[Plugin, Spec]]] = {}
        self._schemes: dict[str, list[tuple[Plugin, Backend]]] = {}

    @property
    def plugins(self) -> list[Plugin]:
        """Every plugin that was found, the core first, with its status and reason."""
        if self._plugins is None:
            self._plugins = list(self._found())
            for plugin in self._plugins:
                self._claim(plugin)
            self._record_conflicts()
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
        except (
            Exception
        ) as error:  # noqa: BLE001 - whatever an import raises is that plugin's failure
            raise PluginLoadError(spec.name, _sentence(error)) from error

    def template(self, name: str) -> Template:
        """Return the summary template of this name."""
        loaded = self.load(self.find(hookspecs.TemplateSpec, name))
        template: Template = loaded() if isinstance(loaded, type) else loaded
        return template

    def embeddings(self, name: str, **options: Any) -> Embeddings:
        """Return a new embedder of this name, made with the options."""
        made: Embeddings = self.load(self.find(hookspecs.EmbeddingsSpec, name))(**options)
        return made

    def token_counter(self, name: str) -> Callable[[MemoryItem], int]:
        """Return the token counter of this name."""
        counter: Callable[[MemoryItem], int] = self.load(self.find(hookspecs.TokenCounterSpec, name))
        return counter

    def item_types(self) -> Mapping[str, type[MemoryItem]]:
        """Return the classes of all item types by name; a plugin's class is imported when an item of it is met."""
        return _ItemTypes(self)

    def _claims(self) -> dict[tuple[type[Spec], str], list[tuple[Plugin, Spec]]]:
        assert self.plugins is not None  # asking for the plugins fills the claims
        return self._owners

    def _found(self) -> Iterator[Plugin]:
        core = Plugin(CORE, CORE, _core_version())
        _collect(core, _builtin)
        yield core
        sources = entry_points(group=ENTRY_POINT_GROUP) if self._sources is None else self._sources
        for source in sorted(sources, key=lambda point: (point.name, point.value)):
            distribution = source.dist.name if source.dist is not None else source.module
            plugin = Plugin(source.name, distribution, source.dist.version if source.dist is not None else "")
            if self._allow is not None and not self._allow & {plugin.name, plugin.distribution}:
                plugin.fail("not allowed", f"{ALLOW_VARIABLE} does not name it.")
            else:
                _load(plugin, source)
            yield plugin

    def _claim(self, plugin: Plugin) -> None:
        for spec in plugin.specs:
            claims = self._owners.setdefault((type(spec), spec.name), [])
            if not self._is_cores(plugin, claims, f"The {KINDS[type(spec)]} {spec.name!r}"):
                claims.append((plugin, spec))
            if isinstance(spec, Backend):
                for scheme in spec.schemes:
                    backends = self._schemes.setdefault(scheme, [])
                    if not self._is_cores(plugin, backends, f"The URL scheme {scheme!r}"):
                        backends.append((plugin, spec))

    def _is_cores(self, plugin: Plugin, claims: list[tuple[Plugin, Any]], what: str) -> bool:
        """Whether the core has this name already, in which case the plugin does not get it."""
        taken = any(claimant.name == CORE and claimant.distribution == CORE for claimant, _ in claims)
        if taken:
            plugin.fail("conflict", f"{what} is recollect's own.")
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
            if plugin.status != "ok" and (name in names or INSTALL.get(name) == plugin.distribution):
                return f"The plugin {plugin.label!r} is installed but {plugin.status}: {plugin.reason}"
        if name in INSTALL:
            return f"Try: pip install {INSTALL[name]}"
        return "'recollect plugins' lists what is installed."


class _ItemTypes(Mapping[str, type[MemoryItem]]):
    """Item types by name. One whose plugin fails is as good as not installed: its items keep every field."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._loaded: dict[str, type[MemoryItem]] = dict(BUILTIN_TYPES)

    def __getitem__(self, name: str) -> type[MemoryItem]:
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        found = self._loaded[name]
        if found is MemoryItem:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter({*BUILTIN_TYPES, *(spec.name for spec in self._registry.specs(ItemTypeSpec))})

    def __len__(self) -> int:
        return len(list(iter(self)))

    def _load(self, name: str) -> type[MemoryItem]:
        try:
            loaded = self._registry.load(self._registry.find(ItemTypeSpec, name))
        except PluginNotFoundError:
            return MemoryItem
        except PluginError as error:
            logger.warning("Items of type %r are read as plain items: %s", name, error)
            return MemoryItem
        return loaded if isinstance(loaded, type) and issubclass(loaded, MemoryItem) else MemoryItem


@cache
def default_registry() -> Registry:
    """Return the registry of this process's environment, made once."""
    return Registry()


def _allowed_by_environment() -> set[str] | None:
    listed = os.environ.get(ALLOW_VARIABLE)
    return None if listed is None else {name.strip() for name in listed.split(",") if name.strip()}


def _core_version() -> str:
    from recollect import __version__

    return __version__


def _load(plugin: Plugin, source: EntryPoint) -> None:
    try:
        module = source.load()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - nor may a plugin's sys.exit() end the program
        plugin.fail("broken", _sentence(error))
        return
    _collect(plugin, module)


def _collect(plugin: Plugin, module: object) -> None:
    """Register a plugin in a manager of its own and keep the specs that its hooks return."""
    manager = pluggy.PluginManager("recollect")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module, name=plugin.name)
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError) as error:
        plugin.fail("broken", _sentence(error))
        return
    implemented = {caller.name for caller in manager.get_hookcallers(module) or ()}
    if not implemented:
        plugin.fail("broken", "It implements no hook; is @hookimpl missing?")
    for hook, kind in HOOKS.items():
        if hook in implemented:
            try:
                returned = [spec for specs in getattr(manager.hook, hook)() for spec in specs]
            except (Exception, SystemExit) as error:  # noqa: BLE001 - as above
                plugin.fail("broken", f"{hook}() failed: {_sentence(error)}")
                continue
            for spec in returned:
                _keep(plugin, hook, kind, spec)


def _keep(plugin: Plugin, hook: str, kind: type[Spec], spec: object) -> None:
    """Keep a spec if it is one of the right kind, written for this plugin interface, and names a target."""
    if not isinstance(spec, kind):
        plugin.fail("broken", f"{hook}() returned {type(spec).__name__} where {kind.__name__} is due.")
    elif spec.api != API_VERSION:
        plugin.fail("incompatible", str(PluginIncompatibleError(plugin.name, spec.api, API_VERSION)))
    elif not isinstance(spec.name, str) or not spec.name or ":" not in str(spec.target):
        plugin.fail("broken", f"{hook}() returned a {kind.__name__} without a name or a 'module:attribute' target.")
    elif isinstance(spec, Backend) and not all(isinstance(scheme, str) and scheme for scheme in spec.schemes):
        plugin.fail("broken", f"The schemes of the backend {spec.name!r} must be a tuple of texts.")
    else:
        plugin.specs.append(spec)


def _attribute(target: str) -> Any:
    module, _, path = target.partition(":")
    found: Any = import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return found


def _schemes_of(plugin: Plugin) -> list[str]:
    return [scheme for spec in plugin.specs if isinstance(spec, Backend) for scheme in spec.schemes]


def _sentence(error: BaseException) -> str:
    """Say what was raised in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
