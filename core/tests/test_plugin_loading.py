"""Loading plugins that nobody expected: damaged metadata, odd specs, endings in mid-import, and several threads."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from memoranda.errors import PluginError, PluginLoadError
from memoranda.items import MemoryItem
from memoranda.opening import open as open_store
from memoranda.plugins import Backend, Registry, TokenCounterSpec, default_registry
from memoranda.plugins.registry import Plugin

Install = Callable[..., Path]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a distribution with one plugin module, as an installer would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def made(name: str, source: str, *, entry_points: str | None = None, metadata: str | None = None) -> Path:
        folder = tmp_path / f"{name}-1.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n" if metadata is None else metadata
        )
        (folder / "entry_points.txt").write_text(entry_points or f"[memoranda]\n{name} = loading_{name}\n")
        (tmp_path / f"loading_{name}.py").write_text(textwrap.dedent(source))
        importlib.invalidate_caches()
        return folder

    yield made
    for module in set(sys.modules) - before:
        del sys.modules[module]


GOOD = """
    from memoranda.plugins import Backend, hookimpl

    @hookimpl
    def memoranda_backends():
        return [Backend("paper", schemes=("paper",), target="memoranda.store.in_memory:InMemoryStore")]
"""


def rows(registry: Registry) -> dict[str, Plugin]:
    return {plugin.name: plugin for plugin in registry.plugins}


def test_an_installed_plugin_is_found_with_its_distribution(install: Install) -> None:
    install("good", GOOD)

    found = rows(Registry(allow=None))["good"]

    assert (found.distribution, found.version, found.status) == ("good", "1.0", "ok")


def test_damaged_metadata_of_one_distribution_does_not_hide_the_others(install: Install) -> None:
    install("good", GOOD)
    install("damaged", GOOD, entry_points="[memoranda]\nthis line says nothing\n")

    found = rows(Registry(allow=None))

    assert found["good"].status == "ok"
    assert found["damaged"].status == "broken"
    assert "entry points cannot be read" in found["damaged"].reason


def test_a_distribution_without_name_or_version_is_still_a_row(install: Install) -> None:
    install("nameless", GOOD, metadata="")

    assert rows(Registry(allow=None))["nameless"].status == "ok"


def test_an_entry_point_that_names_nothing_sensible_is_broken(install: Install) -> None:
    install("odd", GOOD, entry_points="[memoranda]\nodd = not a module!\n")

    assert rows(Registry(allow=None))["odd"].status == "broken"


@pytest.mark.parametrize(
    "ending", ["raise SystemExit('bye')", "raise GeneratorExit", "import asyncio; raise asyncio.CancelledError"]
)
def test_a_plugin_that_ends_everything_ends_only_itself(install: Install, ending: str) -> None:
    install("good", GOOD)
    install("bad", ending)

    found = rows(Registry(allow=None))

    assert (found["bad"].status, found["good"].status) == ("broken", "ok")


def test_a_target_that_ends_everything_is_a_load_error(install: Install) -> None:
    install("good", GOOD.replace("memoranda.store.in_memory:InMemoryStore", "loading_exit:Store"))
    install("exit", "import sys; sys.exit(4)", entry_points="[other]\nx = y\n")
    registry = Registry(allow=None)

    with pytest.raises(PluginLoadError, match="SystemExit"):
        registry.load(registry.backend("paper"))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("Better('paper', schemes=('paper',), target='a:b')", "returned Better where Backend is due"),
        ("Backend('paper', schemes='paper', target='a:b')", "must be a tuple of texts"),
        ("Backend('paper', schemes=('Paper',), target='a:b')", "lower case"),
        ("Backend('paper', schemes=('paper',), target='no attribute')", "target"),
        ("Backend('paper', schemes=('paper',), target='module:')", "target"),
        ("Backend('paper', schemes=('paper',), target=None)", "target"),
        ("Backend(['paper'], target='a:b')", "name"),
    ],
)
def test_an_odd_spec_is_refused_with_its_reason(install: Install, spec: str, reason: str) -> None:
    source = """
        from memoranda.plugins import Backend, hookimpl

        class Better(Backend):
            pass

        @hookimpl
        def memoranda_backends():
            return [SPEC]
    """
    install("odd", source.replace("SPEC", spec))

    found = rows(Registry(allow=None))["odd"]

    assert found.status == "broken"
    assert reason in found.reason
    assert found.specs == []


def test_a_hook_may_return_any_iterable(install: Install) -> None:
    install("good", GOOD.replace("return [", "return (spec for spec in [").replace('Store")]', 'Store")])'))

    assert Registry(allow=None).backend("paper").name == "paper"


def test_an_error_without_a_text_is_still_a_reason(install: Install) -> None:
    install("mute", "class Mute(Exception):\n    def __str__(self): raise ValueError\nraise Mute")

    assert rows(Registry(allow=None))["mute"].reason == "Mute"


def test_an_attribute_that_raises_breaks_only_its_plugin(install: Install) -> None:
    source = """
        class Trap:
            @property
            def memoranda_backends(self):
                raise RuntimeError("boo")

        trap = Trap()
    """
    install("trap", source, entry_points="[memoranda]\ntrap = loading_trap:trap\n")

    assert rows(Registry(allow=None))["trap"].status == "broken"


def test_a_plugin_that_asks_for_the_plugins_while_it_is_loaded_is_broken(install: Install) -> None:
    install("curious", "from memoranda.plugins import default_registry\ndefault_registry().plugins\n")
    default_registry.cache_clear()
    try:
        found = rows(default_registry())["curious"]
    finally:
        default_registry.cache_clear()

    assert found.status == "broken"
    assert "while they were being loaded" in found.reason


def test_threads_that_come_first_at_once_find_the_same_plugins(install: Install) -> None:
    install("good", "import time; time.sleep(0.2)\n" + textwrap.dedent(GOOD))
    registry = Registry(allow=None)
    errors: list[PluginError] = []

    def ask() -> None:
        try:
            registry.backend("paper")
        except PluginError as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    assert len(registry.specs(Backend)) == len({spec.name for spec in registry.specs(Backend)})


def test_a_name_of_the_core_cannot_be_taken() -> None:
    registry = Registry([EntryPoint("thief", "thief_plugin", "memoranda")], allow=None)
    thief = """
        from memoranda.plugins import Backend, TokenCounterSpec, hookimpl

        @hookimpl
        def memoranda_backends():
            return [Backend("memory", schemes=("memory",), target="thief_plugin:Store")]

        @hookimpl
        def memoranda_token_counters():
            return [TokenCounterSpec("estimate", target="thief_plugin:estimate")]
    """
    module = type(sys)("thief_plugin")
    exec(textwrap.dedent(thief), module.__dict__)
    sys.modules["thief_plugin"] = module
    try:
        found = rows(registry)["thief"]
    finally:
        del sys.modules["thief_plugin"]

    assert found.status == "conflict"
    assert registry.backend("memory").target == "memoranda.store.in_memory:InMemoryStore"
    assert registry.find(TokenCounterSpec, "estimate").target == "memoranda.tokens:estimate_tokens"


OBSERVER = """
    from memoranda.plugins import ObserverSpec, hookimpl
    from memoranda.store import Observer

    class Loud(Observer):
        def before_add(self, item):
            return item.model_copy(update={{"content": item.content.upper()}})

    class Refuses(Observer):
        def __init__(self):
            raise RuntimeError("no model on this machine")

    class Exits(Observer):
        def __init__(self):
            raise SystemExit(3)

    class Nothing:
        pass

    @hookimpl
    def memoranda_observers():
        return [
            ObserverSpec("loud", target="loading_watching:Loud", auto=True),
            ObserverSpec("broken", target="{target}", auto=True, required={required}),
        ]
"""
BROKEN_OBSERVERS = ["no_such_module:X", "loading_watching:Absent"]
BROKEN_OBSERVERS += [f"loading_watching:{name}" for name in ("Refuses", "Exits", "Nothing")]


@pytest.mark.parametrize("target", BROKEN_OBSERVERS)
async def test_a_broken_observer_of_every_store_is_a_row_and_stops_nobody(
    install: Install, target: str, caplog: pytest.LogCaptureFixture
) -> None:
    install("watching", OBSERVER.format(target=target, required=False))
    registry = Registry(allow=None)

    for _ in range(2):
        async with open_store("memory://", registry=registry) as store:
            await store.add(MemoryItem(id="x", content="stored"))
            stored = await store.get("x")

    row = rows(registry)["watching"]
    assert stored is not None
    assert stored.content == "STORED"
    assert row.status == "broken"
    assert row.reason.count("The observer 'broken' of every store is missing") == 1
    assert len([record for record in caplog.records if "'broken'" in record.getMessage()]) == 1


@pytest.mark.parametrize("target", BROKEN_OBSERVERS)
async def test_without_a_required_observer_a_store_is_read_and_takes_nothing(install: Install, target: str) -> None:
    install("watching", OBSERVER.format(target=target, required=True))

    async with open_store("memory://", registry=Registry(allow=None)) as store:
        with pytest.raises(PluginError, match="not stored: the observer 'broken' is required and missing"):
            await store.add(MemoryItem(content="secret"))

        assert await store.search() == []


@pytest.mark.parametrize("target", BROKEN_OBSERVERS)
def test_a_broken_observer_that_was_asked_for_by_name_is_an_error(install: Install, target: str) -> None:
    install("watching", OBSERVER.format(target=target, required=False))

    with pytest.raises(PluginLoadError, match="'broken'"):
        open_store("memory://", registry=Registry(allow=None), observers=["broken"])


def test_two_plugins_that_claim_a_required_observer_do_not_switch_it_off(install: Install) -> None:
    source = OBSERVER.format(target="loading_watching:Loud", required=True)
    install("watching", source)
    install("twin", source)
    registry = Registry(allow=None)

    names = [type(observer).__name__ for observer in registry.auto_observers()]
    assert "MissingObserver" in names
    assert "Loud" not in names
    assert rows(registry)["twin"].status == "conflict"


@pytest.mark.rare("metadata")
@pytest.mark.parametrize("file", ["METADATA", "entry_points.txt"])
@pytest.mark.parametrize("first", [True, False])
def test_metadata_that_is_not_utf_8_stops_neither_open_nor_the_listing(
    install: Install, tmp_path: Path, file: str, first: bool
) -> None:
    folder = install("aaa" if first else "zzz", GOOD)
    (folder / file).write_bytes((folder / file).read_bytes() + b"\xe9\xff = loading\n")
    install("good", GOOD)
    code = """
        import memoranda
        from memoranda.plugins import default_registry

        memoranda.open("memory://")
        print(*(plugin.name for plugin in default_registry().plugins))
    """

    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )

    assert done.returncode == 0, done.stderr
    assert {"good", "memoranda", "aaa" if first else "zzz"} <= set(done.stdout.split())


def test_several_distributions_without_a_readable_name_are_all_rows(install: Install) -> None:
    for name in ("one", "two"):
        folder = install(name, GOOD)
        for file in ("METADATA", "entry_points.txt"):
            (folder / file).write_bytes(b"\xff\xfe")

    nameless = [plugin for plugin in Registry(allow=None).plugins if plugin.name == "?"]

    assert len(nameless) == 2
    assert all("cannot be read" in plugin.reason for plugin in nameless)
