"""From a URL to a store."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memoranda.errors import InputError, MemoryError, PluginLoadError, UnknownSchemeError
from memoranda.plugins.hookspecs import Backend, ObserverSpec, RankerSpec, RerankerSpec, Spec, WrapperSpec
from memoranda.plugins.installing import OFFERED_BY, OPTION_OFFERED_BY, how_to_install
from memoranda.plugins.registry import Registry, default_registry
from memoranda.urls import no_store_url, redacted, scheme_of, take_known_options

if TYPE_CHECKING:
    from memoranda.plugins.observers import Observer
    from memoranda.store.base import Store
    from memoranda.store.protocol import Access

URL_VARIABLE = "MEMORANDA_URL"


def open(
    url: str | None = None,
    *,
    registry: Registry | None = None,
    observers: Sequence[Observer | str] = (),
    ranker: Any = None,
    reranker: Any = None,
    access: Access = "create",
    **options: Any,
) -> Store:
    """Return the store that a URL names, for ``async with`` or ``init()``: before that, it refuses every call.

    Without a URL, the environment's ``MEMORANDA_URL`` is used, else a SQLite file in the user's data folder. Further
    options are the backend's own, in the URL's query or as keywords. ``embeddings``, ``observers``, ``ranker`` and
    ``reranker`` are objects, or names of installed plugins. An observer that is named here and cannot be made is a
    PluginError; one that a plugin attaches to every store is left out with a warning, or, if its plugin requires it,
    lets nothing be added. Nothing is connected yet. An option of the name of an installed wrapper, such as ``encrypt``,
    puts that around the store, and so does its prefix in the URL. An option of the name of an installed observer that
    takes one, such as ``facts="rules"``, attaches that, also in the URL's query.

    ``access="change"`` refuses a store that is not there with StoreNotFoundError when it is opened, where ``"create"``
    makes one; ``"read"`` does so too, and writes nothing at all: a file on a read-only disk will do.

    Raises UnknownSchemeError, saying what is installed and what to install; InputError for an option that the backend
    does not know or that has two values; PluginError when the backend cannot be loaded.
    """
    registry = registry or default_registry()
    if access not in ("create", "change", "read"):
        raise InputError("access is 'create', 'change' or 'read'.", field="access")
    url = url if url is not None else default_url(make=access == "create")
    url, wrappers = _take_wrappers(registry, url, options)
    url, by_option = _take_observers(registry, url, options)
    spec = _backend(registry, url)
    target = registry.load(spec)
    factory = getattr(target, "from_url", target)
    url, options = _with_embedder(registry, factory, url, options)
    store = _made(factory, url, options, spec.name)
    for wrap in (None, *wrappers):
        store = store if wrap is None else wrap(store)
        store.item_types = registry.item_types()
        store.access = access
        store._label = redacted(url)
        # Some engines are ready at once and others are not. Changing the URL must not make that difference.
        getattr(store, "expect_opening", lambda: None)()
    _attach(store, registry, [*observers, *by_option])
    if ranker is not None:
        store.ranker = _named(registry, RankerSpec, ranker)
    if reranker is not None:
        store.reranker = _named(registry, RerankerSpec, reranker)
    return store


def _take_wrappers(registry: Registry, url: str, options: dict[str, Any]) -> tuple[str, list[partial[Store]]]:
    """Take what asks for wrappers from the URL and the options; return the URL, and the wrappers, innermost first."""
    specs = {spec.name: spec for spec in registry.specs(WrapperSpec)}
    names = {spec.prefix: name for name, spec in specs.items() if spec.prefix}
    asked = {name: options.pop(name) for name in specs if name in options}
    while (prefix := scheme_of(url).partition("+")[0]) in names:
        url = url[len(prefix) + 1 :]
        asked[names[prefix]] = asked.get(names[prefix]) or True
    wrappers = []
    for name, value in sorted(asked.items()):
        if value is not None and value is not False:
            target: Callable[..., Store] = registry.load(specs[name])
            url, read = take_known_options(url, getattr(target, "options", {}))
            wrappers.append(partial(target, value=value, **read))
    return url, wrappers


def _take_observers(registry: Registry, url: str, options: dict[str, Any]) -> tuple[str, list[Observer]]:
    """Take what asks for observers from the URL's query and the options; return the URL, and the observers.

    Raises PluginNotFoundError, saying what to install, for one of ours that is not installed.
    """
    names = {spec.name for spec in registry.specs(ObserverSpec) if spec.option}.union(OPTION_OFFERED_BY)
    asked = {name: options.pop(name) for name in names if name in options}
    if any(name in url.partition("?")[2] for name in names):
        url, asked = take_known_options(url, dict.fromkeys(names, str), asked)
    wanted = {name: value for name, value in sorted(asked.items()) if value is not None and value is not False}
    return url, [registry.observer(name, value=value) for name, value in wanted.items()]


def _backend(registry: Registry, url: str) -> Backend:
    scheme = scheme_of(url)
    try:
        return registry.backend(scheme)
    except UnknownSchemeError:
        if url.startswith("//", len(scheme) + 1):
            raise
        # Without slashes it is rather a user and a password before a host, of which nothing may be repeated.
        raise no_store_url() from None


def default_url(*, make: bool = True) -> str:
    """Return the URL that is used when none is given: ``MEMORANDA_URL``, or a file in the user's data folder.

    The folder is made if it is not there, unless ``make`` says otherwise.
    """
    from_environment = os.environ.get(URL_VARIABLE)
    if from_environment:
        return from_environment
    folder = data_folder()
    if make:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return f"sqlite:///{(folder / 'memory.db').as_posix().lstrip('/') if os.name == 'nt' else folder / 'memory.db'}"


def data_folder() -> Path:
    """Return the folder for memoranda's files of this user, by the custom of the platform."""
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "memoranda"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "memoranda"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "memoranda"


def _with_embedder(registry: Registry, factory: Any, url: str, options: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Replace the name of an embedder, in the URL or among the keywords, with the registry's embedder.

    The backend would look among the installed plugins, but a registry may hold others.
    """
    if "embeddings" in (_option_names(factory) or ()):
        url, options = take_known_options(url, {"embeddings": str}, options)
    if isinstance(options.get("embeddings"), str):
        options["embeddings"] = registry.embeddings(options["embeddings"])
    return url, options


def _made(factory: Any, url: str, options: dict[str, Any], backend: str) -> Store:
    known = _option_names(factory)
    for name in options:
        if known is not None and name not in known:
            listed = f"Its options: {', '.join(known) or 'none'}."
            remedy = f"Try: {how_to_install(OFFERED_BY[name])}" if name in OFFERED_BY else listed
            raise InputError(f"The store {redacted(url)!r} has no option {name!r}. {remedy}", field=name)
    try:
        store: Store = factory(url, **options)
    except (MemoryError, KeyboardInterrupt):
        raise
    except BaseException as error:  # noqa: BLE001 - a backend may raise anything; it is raised again
        failure = PluginLoadError(backend, f"making a store failed with {type(error).__name__}.")
        # What the backend raised may quote the URL; its text is shown only where that holds no secret.
        raise failure from (error if redacted(url) == url and not options else None)
    if not hasattr(store, "search"):
        raise PluginLoadError(backend, f"it made a {type(store).__name__}, not a store.")
    return store


def _option_names(factory: Any) -> list[str] | None:
    """Return the names of the options that a factory takes, or None if it takes any, or does not tell."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters if parameter.name != "url"]


def _named(registry: Registry, kind: type[Spec], given: Any) -> Any:
    """Return what was given, or a new one of the installed plugin that a name stands for."""
    return registry.make(registry.find(kind, given)) if isinstance(given, str) else given


def _attach(store: Store, registry: Registry, observers: Sequence[Observer | str]) -> None:
    for everywhere in registry.auto_observers():
        store.observe(everywhere)
    for observer in observers:
        store.observe(registry.observer(observer) if isinstance(observer, str) else observer)
