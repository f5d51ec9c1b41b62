"""Finding plugins: good, broken, hostile and clashing ones."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from memoranda import MemoryItem
from memoranda.errors import InputError, PluginConflictError, PluginLoadError, PluginNotFoundError, UnknownSchemeError
from memoranda.opening import open as open_store
from memoranda.plugins import Backend, ItemTypeSpec, Registry, TemplateSpec, TokenCounterSpec
from memoranda.plugins.registry import Plugin
from memoranda_summary import installed_template

MakePlugin = Callable[[str, str], EntryPoint]

GOOD = """
    from memoranda.plugins import Backend, hookimpl

    @hookimpl
    def memoranda_backends():
        return [Backend("paper", schemes=("paper",), target="memoranda.store.in_memory:InMemoryStore")]
"""


@pytest.fixture
def make_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakePlugin]:
    """Return a function that writes a plugin module and gives its entry point."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def make(name: str, source: str) -> EntryPoint:
        module = f"plugin_{name}"
        (tmp_path / f"{module}.py").write_text(textwrap.dedent(source), encoding="utf-8")
        return EntryPoint(name, module, "memoranda")

    yield make
    for module in set(sys.modules) - before:
        if module.startswith("plugin_"):  # What plugins import stays: numpy can be loaded only once.
            del sys.modules[module]


def only(registry: Registry, name: str) -> Plugin:
    """Return the plugin of this name."""
    return next(plugin for plugin in registry.plugins if plugin.name == name)


def test_a_good_plugin_is_found(make_plugin: MakePlugin) -> None:
    registry = Registry([make_plugin("good", GOOD)], allow=None)

    assert only(registry, "good").status == "ok"
    assert registry.backend("paper").name == "paper"
    assert [backend.name for backend in registry.specs(Backend)] == ["memory", "paper"]


def test_the_core_is_a_plugin_too() -> None:
    registry = Registry([], allow=None)

    assert [plugin.name for plugin in registry.plugins] == ["memoranda"]
    assert registry.backend("memory").target == "memoranda.store.in_memory:InMemoryStore"


BACKENDS = "from memoranda.plugins.hookspecs import *\n@hookimpl\ndef memoranda_backends(): return [{}]"

BROKEN = {
    "missing_module": ("import no_such_driver_at_all", "broken", "ModuleNotFoundError"),
    "syntax": ("def broken(:", "broken", "SyntaxError"),
    "raises": ("raise RuntimeError('bad\\nday')", "broken", "RuntimeError: bad day"),
    "exits": ("import sys; sys.exit(3)", "broken", "SystemExit"),
    "no_hooks": ("x = 1", "broken", "no hook"),
    "unknown_hook": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backend(): return []",
        "broken",
        "memoranda_backend",
    ),
    "wrong_signature": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(registry): return []",
        "broken",
        "registry",
    ),
    "hook_raises": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): raise KeyError('x')",
        "broken",
        "memoranda_backends() failed: KeyError",
    ),
    "hook_exits": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): raise SystemExit",
        "broken",
        "memoranda_backends() failed: SystemExit",
    ),
    "returns_one": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): return 3",
        "broken",
        "memoranda_backends() returned int where a list is due",
    ),
    "returns_texts": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): return ['sqlite']",
        "broken",
        "returned str where Backend is due",
    ),
    "wrong_kind": (
        BACKENDS.format("TemplateSpec('x', target='a:b')"),
        "broken",
        "returned TemplateSpec where Backend is due",
    ),
    "no_target": (
        BACKENDS.format("Backend('x', target='nowhere')"),
        "broken",
        "module:attribute",
    ),
    "old": (
        BACKENDS.format("Backend('x', target='a:b', api=99)"),
        "incompatible",
        "plugin API 99",
    ),
    "cancels": ("import asyncio; raise asyncio.CancelledError", "broken", "CancelledError"),
    "attribute_exits": (
        "import sys\nclass Trap:\n    def __getattr__(self, name): sys.exit(2)\ntrap = Trap()",
        "broken",
        "",
    ),
    "returns_none": (
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): pass",
        "broken",
        "memoranda_backends() returned NoneType where a list is due",
    ),
    "takes_modules_out": (
        "import sys\nfor name in [*sys.modules]: name.startswith(('memoranda', 'pluggy')) and sys.modules.pop(name)",
        "broken",
        "no hook",
    ),
    "subclass": (
        BACKENDS.format("type('Mine', (Backend,), {})('x', target='a:b')"),
        "broken",
        "returned Mine where Backend is due",
    ),
    "summary_is_no_text": (BACKENDS.format("Backend('x', target='a:b', summary=object())"), "broken", "summary"),
    "api_is_odd": (BACKENDS.format("Backend('x', target='a:b', api='1')"), "incompatible", "plugin API"),
    "scheme_in_capitals": (BACKENDS.format("Backend('x', schemes=('Paper',), target='a:b')"), "broken", "schemes"),
    "scheme_with_slashes": (BACKENDS.format("Backend('x', schemes=('x://',), target='a:b')"), "broken", "schemes"),
    "schemes_text": (
        BACKENDS.format("Backend('x', schemes=(3,), target='a:b')"),
        "broken",
        "schemes",
    ),
}


@pytest.mark.parametrize("name", list(BROKEN))
def test_a_broken_plugin_is_a_row_with_its_reason(make_plugin: MakePlugin, name: str) -> None:
    source, status, reason = BROKEN[name]
    registry = Registry([make_plugin(name, source), make_plugin("good", GOOD)], allow=None)

    row = only(registry, name)

    assert (row.status, row.specs) == (status, [])
    assert reason in row.reason
    assert "\n" not in row.reason
    assert registry.backend("paper").name == "paper", "the others go on working"


def test_what_a_hook_returns_may_be_any_iterable_that_ends(make_plugin: MakePlugin) -> None:
    source = """
        from itertools import count
        from memoranda.plugins import Backend, TokenCounterSpec, hookimpl

        @hookimpl
        def memoranda_backends():
            yield Backend("Ink Well", schemes=("ink", "ink"), target="memoranda.store.in_memory:InMemoryStore")

        @hookimpl
        def memoranda_token_counters():
            return (TokenCounterSpec(f"counter{number}", target="a:b") for number in count())
    """
    registry = Registry([make_plugin("endless", source)], allow=None)

    row = only(registry, "endless")

    assert (row.status, len(row.specs)) == ("broken", 1001)
    assert "more than 1000" in row.reason
    assert registry.backend("ink").name == "Ink Well", "a scheme that is named twice is no conflict"


def test_of_two_specs_of_one_name_in_a_plugin_the_first_counts(make_plugin: MakePlugin) -> None:
    twice = BACKENDS.format("Backend('x', schemes=('x',), target='a:b'), Backend('x', schemes=('y',), target='a:c')")
    registry = Registry([make_plugin("twice", twice)], allow=None)

    assert "two specs of the name 'x'" in only(registry, "twice").reason
    assert registry.backend("x").target == "a:b"


@pytest.mark.parametrize("attribute", ["Plugin", "missing", "nothing"])
def test_an_entry_point_to_something_else_than_a_module_is_a_row(make_plugin: MakePlugin, attribute: str) -> None:
    source = """
        from memoranda.plugins import Backend, hookimpl

        nothing = None

        class Plugin:
            @hookimpl
            def memoranda_backends(self):
                return [Backend("x", target="a:b")]
    """
    point = make_plugin("odd", source)
    registry = Registry([EntryPoint("odd", f"{point.value}:{attribute}", "memoranda")], allow=None)

    assert only(registry, "odd").status == "broken"
    assert only(registry, "odd").reason


def test_what_cannot_be_made_is_a_load_error_that_tells_no_secret(make_plugin: MakePlugin) -> None:
    source = """
        from memoranda.plugins import EmbeddingsSpec, ObserverSpec, TemplateSpec, TokenCounterSpec, hookimpl

        class Fails:
            def __init__(self, key=""):
                raise RuntimeError(f"bad key {key}")

        @hookimpl
        def memoranda_embeddings():
            return [EmbeddingsSpec("bad", target="plugin_fails:Fails")]

        @hookimpl
        def memoranda_observers():
            return [ObserverSpec("bad", target="plugin_fails:Fails")]

        @hookimpl
        def memoranda_templates():
            return [TemplateSpec("bad", target="plugin_fails:Fails"), TemplateSpec("other", target="sys:path")]
    """
    registry = Registry([make_plugin("fails", source)], allow=None)

    with pytest.raises(PluginLoadError, match="RuntimeError") as refused:
        registry.embeddings("bad", key="sk-secret")
    assert "sk-secret" not in str(refused.value)
    for name, reason in (("bad", "RuntimeError"), ("other", "not a template")):
        with pytest.raises(PluginLoadError, match=reason):
            installed_template(name, registry)
    with pytest.raises(PluginLoadError, match="RuntimeError"):
        open_store("memory://", registry=registry, observers=["bad"])


def test_one_bad_spec_does_not_take_the_good_ones_along(make_plugin: MakePlugin) -> None:
    source = GOOD.replace("return [", "return [42, ")
    registry = Registry([make_plugin("half", source)], allow=None)

    assert only(registry, "half").status == "broken"
    assert registry.backend("paper").name == "paper"


def test_two_plugins_that_claim_a_name_are_both_named(make_plugin: MakePlugin) -> None:
    registry = Registry([make_plugin("one", GOOD), make_plugin("two", GOOD)], allow=None)

    assert {only(registry, name).status for name in ("one", "two")} == {"conflict"}
    assert "'two" in only(registry, "one").reason
    with pytest.raises(PluginConflictError, match=r"one.*two"):
        registry.backend("paper")
    with pytest.raises(PluginConflictError):
        registry.find(Backend, "paper")
    assert registry.backend("memory").name == "memory"


def test_nobody_takes_a_name_from_the_core(make_plugin: MakePlugin) -> None:
    registry = Registry([make_plugin("thief", GOOD.replace("paper", "memory"))], allow=None)

    assert only(registry, "thief").status == "conflict"
    assert registry.load(registry.backend("memory")).__name__ == "InMemoryStore"


def test_only_allowed_plugins_are_loaded(make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_PLUGINS", "good, other")
    registry = Registry([make_plugin("good", GOOD), make_plugin("bad", "raise RuntimeError")])

    assert only(registry, "good").status == "ok"
    assert only(registry, "bad").status == "not allowed"
    assert "plugin_bad" not in sys.modules


def test_an_empty_list_allows_none(make_plugin: MakePlugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORANDA_PLUGINS", "")

    assert only(Registry([make_plugin("good", GOOD)]), "good").status == "not allowed"


def test_an_unknown_scheme_says_what_to_install() -> None:
    registry = Registry([], allow=None)

    with pytest.raises(
        UnknownSchemeError,
        match=r"pip install 'memoranda\[postgres\]'",
    ) as caught:
        registry.backend("postgresql")
    assert isinstance(caught.value, LookupError)


def test_a_plugin_that_failed_is_mentioned_where_it_is_missed(make_plugin: MakePlugin) -> None:
    registry = Registry([make_plugin("paper", "import no_such_driver_at_all")], allow=None)

    with pytest.raises(UnknownSchemeError, match=r"installed but broken: .*no_such_driver_at_all"):
        registry.backend("paper")


def test_a_name_that_nobody_has_lists_those_that_exist() -> None:
    with pytest.raises(PluginNotFoundError, match=r"No token counter is called 'spy'\. Installed: estimate"):
        Registry([], allow=None).find(TokenCounterSpec, "spy")
    with pytest.raises(PluginNotFoundError, match=r"pip install 'memoranda\[summary-facts\]'"):
        Registry([], allow=None).find(TemplateSpec, "facts")


def test_a_target_that_cannot_be_imported_is_a_load_error(make_plugin: MakePlugin) -> None:
    source = GOOD.replace("memoranda.store.in_memory:InMemoryStore", "no_such_module:Store")
    registry = Registry([make_plugin("good", source)], allow=None)

    with pytest.raises(PluginLoadError, match="'paper' could not be loaded: ModuleNotFoundError"):
        registry.load(registry.backend("paper"))


def test_item_types_are_loaded_when_they_are_met(make_plugin: MakePlugin) -> None:
    source = """
        from memoranda.plugins import ItemTypeSpec, hookimpl
        from memoranda.items import MemoryItem

        class Note(MemoryItem):
            memory_type: str = "note"

        @hookimpl
        def memoranda_item_types():
            return [
                ItemTypeSpec("note", target="plugin_types:Note"),
                ItemTypeSpec("ghost", target="plugin_types:Ghost"),
                ItemTypeSpec("number", target="math:pi"),
            ]
    """
    types = Registry([make_plugin("types", source)], allow=None).item_types()

    assert types["note"].__name__ == "Note"
    assert types.get("ghost", MemoryItem) is MemoryItem
    assert types.get("number", MemoryItem) is MemoryItem
    assert types.get("unheard of") is None
    assert {"human", "ai", "tool", "system", "note"} <= set(types)
    assert {"ghost", "number"}.isdisjoint({**types})
    assert len(types) == len({**types})


def test_listing_plugins_imports_no_driver() -> None:
    code = """
        import sys
        import memoranda
        assert "pydantic" not in sys.modules, "importing memoranda is free"
        from memoranda.plugins import Registry
        from memoranda.plugins import Backend
        registry = Registry(allow=None)
        assert registry.plugins and registry.specs(Backend)
        heavy = {"numpy", "openai", "aiosqlite", "sqlite3", "asyncpg", "redis", "usearch", "pytest", "hypothesis"}
        loaded = sorted(heavy & set(sys.modules))
        assert not loaded, loaded
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=240)


def test_specs_name_their_api() -> None:
    assert ItemTypeSpec("x", target="a:b").api == 1


def test_ctrl_c_while_a_plugin_is_imported_ends_the_program(make_plugin: MakePlugin) -> None:
    source = "import signal\nsignal.raise_signal(signal.SIGINT)\nfor _ in range(1000): pass"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            Registry([make_plugin("slow", source)], allow=None).plugins  # noqa: B018  # asking loads them
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    "source",
    [
        "raise KeyboardInterrupt",
        "from memoranda.plugins import hookimpl\n@hookimpl\ndef memoranda_backends(): raise KeyboardInterrupt",
        BACKENDS.format("Backend('x', target='a:b')") + "\nraise KeyboardInterrupt",
    ],
    ids=["import", "hook", "behind a hook"],
)
def test_an_interrupt_is_the_users_whoever_raises_it(make_plugin: MakePlugin, source: str) -> None:
    registry = Registry([make_plugin("good", GOOD), make_plugin("interrupting", source)], allow=None)

    for _ in range(2):  # Nothing is half loaded: who asks again is told again.
        with pytest.raises(KeyboardInterrupt):
            registry.plugins  # noqa: B018  # asking loads them


@pytest.mark.parametrize("raised", ["SystemExit(3)", "GeneratorExit", "KeyboardInterrupt"])
def test_a_target_that_raises_while_it_is_made_is_a_load_error_unless_it_interrupts(
    make_plugin: MakePlugin, raised: str
) -> None:
    source = f"""
        from memoranda.plugins import EmbeddingsSpec, hookimpl

        def make():
            raise {raised}

        @hookimpl
        def memoranda_embeddings():
            return [EmbeddingsSpec("ending", target=f"{{__name__}}:make")]
    """
    registry = Registry([make_plugin("ending", source)], allow=None)

    with pytest.raises(KeyboardInterrupt if raised == "KeyboardInterrupt" else PluginLoadError):
        registry.embeddings("ending")


def test_what_a_plugin_prints_is_kept_out_of_the_output(
    make_plugin: MakePlugin, capsys: pytest.CaptureFixture[str]
) -> None:
    registry = Registry([make_plugin("noisy", "print('noise')\n" + textwrap.dedent(GOOD))], allow=None)

    assert only(registry, "noisy").status == "ok"
    assert capsys.readouterr() == ("", "noise\n")


EMBEDDER = """
    from memoranda_backend.ranking import HashingEmbeddings
    from memoranda.plugins import EmbeddingsSpec, hookimpl

    class Named(HashingEmbeddings):
        model = "{name}"

    @hookimpl
    def memoranda_embeddings():
        return [EmbeddingsSpec("{name}", target="plugin_{name}:Named")]
"""


@pytest.mark.parametrize(
    ("installed", "picked"), [(["one"], "one"), (["one", "static"], "static"), (["static"], "static")]
)
def test_auto_is_the_embedder_that_is_installed(make_plugin: MakePlugin, installed: list[str], picked: str) -> None:
    registry = Registry([make_plugin(name, EMBEDDER.format(name=name)) for name in installed], allow=None)
    assert registry.embeddings("auto").identity() == picked


def test_auto_does_not_choose_among_several_services(make_plugin: MakePlugin) -> None:
    registry = Registry([make_plugin(name, EMBEDDER.format(name=name)) for name in ("one", "two")], allow=None)
    with pytest.raises(InputError, match="one, two"):
        registry.embeddings("auto")


def test_auto_without_any_embedder_says_what_to_install() -> None:
    with pytest.raises(PluginNotFoundError, match="embed-static"):
        Registry([], allow=None).embeddings("auto")
