"""Loading plugins one by one. Whatever one of them does, the others are loaded and its row says what it did.

The one exception is KeyboardInterrupt, which always counts as the user's Ctrl-C: nothing reliable tells it from one
that a plugin raises.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, distributions, entry_points
from itertools import islice
from typing import Any, Literal

import pluggy

from memoranda.errors import PluginIncompatibleError
from memoranda.plugins import hookspecs
from memoranda.plugins.hookspecs import API_VERSION, ENTRY_POINT_GROUP, HOOKS, Backend, Spec

MAX_SPECS = 1000
"""The most that one hook of a plugin may offer."""

_TARGET = re.compile(r"[^:]+:.+", re.DOTALL)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_OWN_PACKAGES = frozenset({"memoranda", "pluggy"})

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


def installed() -> Iterator[tuple[Plugin, EntryPoint | None]]:
    """Yield every entry point of the installed distributions, and a broken plugin for each unreadable distribution."""
    try:
        sources = list(entry_points(group=ENTRY_POINT_GROUP))
    except Exception:  # noqa: BLE001 - some distribution's metadata is damaged: find out which, and use the others
        yield from _installed_one_by_one()
        return
    yield from map(described, sources)


def _installed_one_by_one() -> Iterator[tuple[Plugin, EntryPoint | None]]:
    seen = set()
    for distribution in distributions():
        name = _text(getattr, distribution, "name")
        if name and name in seen:
            continue  # One of this name comes before it on the path. Those without a name are all different.
        seen.add(name)
        try:
            sources = [point for point in distribution.entry_points if point.group == ENTRY_POINT_GROUP]
        except Exception as error:  # noqa: BLE001 - foreign metadata may be wrong in any way
            plugin = Plugin(name or "?", name or "?", _text(getattr, distribution, "version"))
            folder = _text(distribution.locate_file, "") or "?"
            plugin.fail("broken", f"Its entry points cannot be read: {sentence(error)} (in {folder})")
            yield plugin, None
            continue
        yield from map(described, sources)


def described(source: EntryPoint) -> tuple[Plugin, EntryPoint]:
    """Return a plugin for an entry point, not loaded yet, with the entry point."""
    if source.dist is None:
        return Plugin(source.name, source.value.partition(":")[0], ""), source
    name, version = _text(getattr, source.dist, "name"), _text(getattr, source.dist, "version")
    return Plugin(source.name, name or "?", version), source


def _text(read: Callable[..., object], *arguments: object) -> str:
    try:
        return str(read(*arguments) or "")
    except Exception:  # noqa: BLE001 - as above
        return ""


def load(plugin: Plugin, source: EntryPoint) -> None:
    """Import an entry point and keep what its hooks offer, or the reason why they cannot."""
    # What a plugin prints while it is imported must not end up in what a program writes.
    with _modules_kept(), redirect_stdout(sys.stderr):
        try:
            module = source.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - not even a plugin's sys.exit() may end the program
            plugin.fail("broken", sentence(error))
        else:
            collect(plugin, module)


@contextmanager
def _modules_kept() -> Iterator[None]:
    """Put back modules that a plugin removes, and those of this package that it replaces.

    With other spec classes instead of ours, every plugin after it would seem broken.
    """
    before = dict(sys.modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if name not in sys.modules or name.partition(".")[0] in _OWN_PACKAGES:
                sys.modules[name] = module


def collect(plugin: Plugin, module: object) -> None:
    """Register a plugin in a manager of its own and keep the specs that its hooks return."""
    manager = pluggy.PluginManager("memoranda")
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(module, name=plugin.name)
        manager.check_pending()
        implemented = {caller.name for caller in manager.get_hookcallers(module) or ()}
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - pluggy looks at every attribute, and an attribute may do anything
        plugin.fail("broken", sentence(error))
        return
    if not implemented:
        plugin.fail("broken", "It implements no hook; is @hookimpl missing?")
    for hook, kind in HOOKS.items():
        if hook in implemented:
            for spec in _returned(plugin, manager, hook):
                _keep(plugin, hook, kind, spec)


def _returned(plugin: Plugin, manager: pluggy.PluginManager, hook: str) -> list[object]:
    try:
        returned: list[object] = []
        for result in getattr(manager.hook, hook)() or [None]:  # pluggy leaves None out.
            if isinstance(result, Iterable) and not isinstance(result, str):
                returned += islice(result, MAX_SPECS + 1)  # It may be a generator that never ends.
            else:
                plugin.fail("broken", f"{hook}() returned {type(result).__name__} where a list is due.")
        if len(returned) > MAX_SPECS:
            plugin.fail("broken", f"{hook}() returned more than {MAX_SPECS} specs.")
        return returned[:MAX_SPECS]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - as above: the failure is the plugin's own
        plugin.fail("broken", f"{hook}() failed: {sentence(error)}")
        return []


def _keep(plugin: Plugin, hook: str, kind: type[Spec], spec: Any) -> None:
    """Keep a spec if it is of exactly the right kind, written for this plugin interface, and names a target."""
    found = type(spec)
    if found is not kind:
        plugin.fail("broken", f"{hook}() returned {found.__name__} where {kind.__name__} is due.")
    elif type(spec.api) is not int or spec.api != API_VERSION:
        plugin.fail("incompatible", str(PluginIncompatibleError(plugin.name, spec.api, API_VERSION)))
    elif not (spec.name and isinstance(spec.name, str)) or not _is_text(spec.target, _TARGET):
        plugin.fail("broken", f"{hook}() returned a {kind.__name__} without a name or a 'module:attribute' target.")
    elif not isinstance(spec.summary, str):
        plugin.fail("broken", f"The summary of {spec.name!r} is {type(spec.summary).__name__} where text is due.")
    elif kind is Backend and not _are_schemes(spec.schemes):
        plugin.fail("broken", f"The schemes of the backend {spec.name!r} must be a tuple of texts in lower case.")
    elif any(type(other) is kind and other.name == spec.name for other in plugin.specs):
        plugin.fail("broken", f"{hook}() returned two specs of the name {spec.name!r}; the first one counts.")
    else:
        plugin.specs.append(spec)


def _is_text(value: object, form: re.Pattern[str]) -> bool:
    return isinstance(value, str) and form.fullmatch(value) is not None


def _are_schemes(schemes: object) -> bool:
    return isinstance(schemes, (tuple, list)) and all(_is_text(scheme, _SCHEME) for scheme in schemes)


def sentence(error: BaseException) -> str:
    """Say what was raised in one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 - an exception of a plugin's own may not even have a text
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
