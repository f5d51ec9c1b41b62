"""How the repository is built: what may import what, what a distribution may depend on, and which names are ours."""

from __future__ import annotations

import ast
import importlib
import os
import re
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from memoranda.store.engine import Engine

ROOT = Path(__file__).resolve().parent.parent
CORE = ROOT / "core" / "src" / "memoranda"
SOURCES = [CORE.parent, *sorted(ROOT.glob("plugins/*/*/src"))]

LAYERS = (("core",), ("libraries",), ("backends", "summaries", "features"), ("frameworks", "programs"))
"""The folders of each layer, from below. A distribution imports what lies below it, and never its neighbours."""

PACKAGES = {
    package.name: "core" if package.parent == CORE.parent else package.relative_to(ROOT / "plugins").parts[0]
    for source in SOURCES
    for package in source.iterdir()
    if (package / "__init__.py").is_file()
}
"""The folder of each package's layer."""

BETWEEN_NEIGHBOURS = {
    *((f"memoranda_summary_{name}", "memoranda_summary") for name in ("conversation", "facts", "profiles")),
    # Extras: a name of one is offered by the other as well, and the command runs the kit.
    ("memoranda_vector", "memoranda_openai"),
    ("memoranda_cli", "memoranda_testing"),
}

WHERE_INSTALLED = {
    ("memoranda_vector", "memoranda_openai"),
    ("memoranda_cli", "memoranda_testing"),
    ("memoranda_inspector", "memoranda_facts"),
    ("memoranda_inspector", "memoranda_receipts"),
}
"""What a distribution imports only if it is installed, and says how to get otherwise; it does not depend on it."""

ENGINE_METHODS = 10
"""How many methods a backend may write, all of them public."""

FACES = {"memoranda": 20, "memoranda.store": 36, "memoranda.store.backend": 80, "memoranda.plugins": 30}
"""How many names the public modules of the core offer."""

PRIVATE_ACCESSES = 1
"""How often a distribution touches a private name of another: once, of MCP's SDK, which has no public name for it."""

# What a name tuple documents as public, although it begins with an underscore.
PUBLIC_IN_PYTHON = {"_exit", "_fields", "_replace", "_asdict", "_make", "_field_defaults"}


def module_name(path: Path) -> str:
    """Return the dotted name of a source file."""
    source = next(folder for folder in SOURCES if folder in path.parents)
    parts = path.relative_to(source).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules() -> dict[str, ast.Module]:
    """Return every module of every distribution, parsed."""
    files = [file for source in SOURCES for file in sorted(source.rglob("*.py"))]
    return {module_name(file): ast.parse(file.read_text()) for file in files}


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a module. Most tests here ask for them, and a walk takes as long as parsing does."""
    return list(ast.walk(tree))


@cache
def imports_of(tree: ast.Module) -> list[ast.Import | ast.ImportFrom]:
    """Return what a module imports anywhere."""
    return [node for node in nodes_of(tree) if isinstance(node, (ast.Import, ast.ImportFrom))]


def imported(tree: ast.Module, known: set[str]) -> Iterator[str]:
    """Yield the modules of ours that a module imports anywhere, for types and on use too."""
    for node in imports_of(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in known else node.module
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return modules()


def test_no_two_modules_import_each_other_even_in_a_round(trees: dict[str, ast.Module]) -> None:
    """A package's face names what its modules hold, so it is no part of the round."""
    known = set(trees)
    faces = {name for name in known if any(other.startswith(f"{name}.") for other in known)}
    graph = {
        name: {other for other in imported(tree, known) if other in known and other not in faces}
        for name, tree in trees.items()
        if name not in faces
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"These modules import each other: {' -> '.join(error.args[1])}")


def test_no_two_rooms_of_the_core_import_each_other(trees: dict[str, ast.Module]) -> None:
    known = set(trees)

    def room(name: str) -> str:
        return ".".join(name.split(".")[:2])

    graph: dict[str, set[str]] = {}
    for name, tree in trees.items():
        if name.startswith("memoranda."):
            found = {room(other) for other in imported(tree, known) if other.startswith("memoranda.")}
            graph.setdefault(room(name), set()).update(found - {room(name)})
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"These rooms import each other: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize(
    "pure", ["items", "windowing", "integrity", "tokens", "tool_calls", "history", "speakers", "plugins"]
)
def test_what_a_memory_is_and_what_may_be_shown_knows_no_store(trees: dict[str, ast.Module], pure: str) -> None:
    known = set(trees)
    for name, tree in trees.items():
        if name == f"memoranda.{pure}" or name.startswith(f"memoranda.{pure}."):
            assert not [other for other in imported(tree, known) if other.startswith("memoranda.store")], name


def layer_of(package: str) -> int:
    """Return the number of the layer that a package belongs to, from the core up."""
    return next(number for number, layer in enumerate(LAYERS) if PACKAGES[package] in layer)


def test_every_folder_of_plugins_is_part_of_a_layer() -> None:
    found = {path.name for path in (ROOT / "plugins").iterdir() if path.is_dir() and not path.name.startswith("_")}
    assert found | {"core"} == {folder for layer in LAYERS for folder in layer}
    assert set(PACKAGES.values()) == found | {"core"}


def test_every_distribution_is_named_after_its_folder() -> None:
    for path in ROOT.glob("plugins/*/*/pyproject.toml"):
        name = f"memoranda-{'summary-' * (path.parts[-3] == 'summaries')}{path.parent.name}"
        assert tomllib.loads(path.read_text())["project"]["name"] == name
        assert [folder.name for folder in (path.parent / "src").iterdir()] == [name.replace("-", "_")]


def test_every_distribution_imports_only_what_lies_below_it(trees: dict[str, ast.Module]) -> None:
    known = set(trees)
    sideways = set()
    for name, tree in trees.items():
        importer = name.partition(".")[0]
        if importer == "memoranda":
            continue  # The test below is stricter.
        for other in {module.partition(".")[0] for module in imported(tree, known)}:
            if other.startswith("memoranda_") and other != importer and layer_of(other) >= layer_of(importer):
                sideways.add((importer, other))
    assert sideways == BETWEEN_NEIGHBOURS


def test_only_the_command_imports_the_commands_of_features(trees: dict[str, ast.Module]) -> None:
    """It imports them by name, when they are run: a feature that is used as a library does not import typer."""
    known = set(trees)
    commands = {name for name in known if ".commands" in name and not name.startswith("memoranda_cli.")}
    found = {
        (name, other)
        for name, tree in trees.items()
        for other in imported(tree, known)
        if other in commands and name not in commands
    }
    assert found == set()


def test_every_distribution_depends_on_what_it_imports(trees: dict[str, ast.Module]) -> None:
    known = set(trees)
    for path in sorted(ROOT.glob("plugins/*/*/pyproject.toml")):
        project = tomllib.loads(path.read_text())["project"]
        package = project["name"].replace("-", "_")
        needed = {Requirement(line).name for line in project["dependencies"]}
        used = {
            module.partition(".")[0].replace("_", "-")
            for name, tree in trees.items()
            if name.partition(".")[0] == package
            for module in imported(tree, known)
            if module.startswith("memoranda_") and module.partition(".")[0] != package
        }
        optional = {other.replace("_", "-") for importer, other in WHERE_INSTALLED if importer == package}
        assert used - optional <= needed, path.parent.name


def test_the_core_imports_no_plugin_but_the_command_it_starts(trees: dict[str, ast.Module]) -> None:
    known = set(trees)
    found = {
        (name, other)
        for name, tree in trees.items()
        if name.partition(".")[0] == "memoranda"
        for other in imported(tree, known)
        if other.startswith("memoranda_")
    }
    assert found == {("memoranda.__main__", "memoranda_cli")}


def test_the_core_depends_on_pydantic_and_pluggy_and_nothing_else() -> None:
    project = tomllib.loads((ROOT / "core" / "pyproject.toml").read_text())["project"]
    assert {Requirement(line).name for line in project["dependencies"]} == {"pydantic", "pluggy"}


def test_a_backend_has_few_methods_to_write_and_all_are_public() -> None:
    methods = [name for name in vars(Engine) if not name.startswith("_") and callable(getattr(Engine, name))]
    assert len(methods) <= ENGINE_METHODS, methods
    assert [name for name, value in vars(Engine).items() if callable(value) and _is_private(name)] == []


@pytest.mark.parametrize("module", sorted(FACES))
def test_the_public_modules_of_the_core_stay_small(module: str) -> None:
    assert len(importlib.import_module(module).__all__) <= FACES[module]


def test_distributions_keep_their_hands_off_the_private_names_of_others(trees: dict[str, ast.Module]) -> None:
    """A name counts that the distribution which reads it does not define itself."""
    defined: dict[str, set[str]] = {}
    for name, tree in trees.items():
        own = defined.setdefault(name.partition(".")[0], set(PUBLIC_IN_PYTHON))
        for node in nodes_of(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                own.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                own.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
    found = [
        (name, node.attr)
        for name, tree in trees.items()
        for node in nodes_of(tree)
        if isinstance(node, ast.Attribute) and _is_private(node.attr)
        if node.attr not in defined[name.partition(".")[0]]
    ]
    assert len(found) <= PRIVATE_ACCESSES, sorted(found)


def test_every_distribution_is_typed_licensed_and_described() -> None:
    for project in [ROOT / "core", *(path.parent for path in ROOT.glob("plugins/*/*/pyproject.toml"))]:
        assert list(project.glob("src/*/py.typed")), project
        assert (project / "LICENSE").is_file(), project
        assert list(project.glob("tests/**/test_*.py")), project
        assert len((project / "README.md").read_text().splitlines()) > 5, project


def test_no_private_name_of_a_library_is_used(trees: dict[str, ast.Module]) -> None:
    """A private name that nothing here defines is somebody else's, and may be gone in their next release."""
    defined = set(PUBLIC_IN_PYTHON)
    used: dict[str, set[str]] = {}
    for name, tree in trees.items():
        for node in nodes_of(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                defined.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                defined.add(node.id)
            elif isinstance(node, ast.Attribute) and _is_private(node.attr):
                own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
                if isinstance(node.ctx, ast.Store) and own:
                    defined.add(node.attr)
                else:
                    used.setdefault(node.attr, set()).add(name)
            elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("memoranda"):
                for part in [*(node.module or "").split("."), *(alias.name for alias in node.names)]:
                    if _is_private(part):
                        used.setdefault(part, set()).add(name)
    strange = {name: sorted(places) for name, places in used.items() if name not in defined}
    assert strange == {}


def test_no_class_uses_a_private_name_of_a_base_that_is_not_ours(trees: dict[str, ast.Module]) -> None:
    """``self._thread`` of a library's class looks like our own, and a class elsewhere may well have one."""
    classes = [node for tree in trees.values() for node in nodes_of(tree) if isinstance(node, ast.ClassDef)]
    ours: dict[str, list[ast.ClassDef]] = {}
    for node in classes:
        ours.setdefault(node.name, []).append(node)
    # Where every base is ours, the test above is enough: what a mixin uses may be defined in a class below it.
    strange = {}
    for node in classes:
        bases = {base.id if isinstance(base, ast.Name) else "?" for base in map(_bare_base, node.bases)}
        if bases <= ours.keys() | {"Protocol", "NamedTuple", "Generic", "Exception"}:
            continue
        missing = _own_private_uses(node) - _private_definitions(node, ours) - PUBLIC_IN_PYTHON
        if missing:
            strange[node.name] = sorted(missing)
    assert strange == {}


def _bare_base(base: ast.expr) -> ast.expr:
    """Return a base without its type arguments."""
    return base.value if isinstance(base, ast.Subscript) else base


def _own_private_uses(node: ast.ClassDef) -> set[str]:
    return {
        use.attr
        for use in ast.walk(node)
        if isinstance(use, ast.Attribute)
        and _is_private(use.attr)
        and isinstance(use.value, ast.Name)
        and use.value.id in ("self", "cls")
        and isinstance(use.ctx, ast.Load)
    }


def _private_definitions(node: ast.ClassDef, ours: dict[str, list[ast.ClassDef]]) -> set[str]:
    """Return the private names that a class and those of its bases that are ours define."""
    found: set[str] = set()
    for part in ast.walk(node):
        if isinstance(part, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found.add(part.name)
        elif isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
            found.add(part.id)
        elif isinstance(part, ast.Attribute) and isinstance(part.ctx, ast.Store):
            found.add(part.attr)
    for base in map(_bare_base, node.bases):
        for definition in ours.get(base.id, []) if isinstance(base, ast.Name) else []:
            found |= _private_definitions(definition, ours)
    return found


def _is_private(name: str) -> bool:
    return name.startswith("_") and not (name.startswith("__") and name.endswith("__"))


def names_offered(init: Path) -> set[str]:
    """Return the names that a package takes from its modules, itself or in the stub beside it, and those it lists."""
    offered: set[str] = set()
    for source in (init, init.with_suffix(".pyi")):
        body = ast.parse(source.read_text()).body if source.exists() else []
        guarded = [inner for node in body if isinstance(node, ast.If) for inner in node.body]
        for node in (*body, *guarded):
            if isinstance(node, ast.ImportFrom) and node.module != module_name(init):
                offered |= {alias.asname or alias.name for alias in node.names}
            elif isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
                constants = (each.value for each in ast.walk(node.value) if isinstance(each, ast.Constant))
                offered |= {value for value in constants if isinstance(value, str)}
    return offered


def test_no_package_offers_a_name_that_is_also_one_of_its_modules() -> None:
    # Importing the module puts it in the place of the name, for the whole process.
    doubled = {
        f"{module_name(init)}.{name}"
        for source in SOURCES
        for init in source.rglob("__init__.py")
        for name in names_offered(init)
        if (init.parent / f"{name}.py").exists() or (init.parent / name / "__init__.py").exists()
    }
    assert not doubled, f"rename the module, not the name: {sorted(doubled)}"


def files_of_the_clone() -> Iterator[Path]:
    """Yield all but what is made from others. Git would know, but may be absent, or refuse what another user owns."""
    made = {"__pycache__", "build", "dist", "htmlcov", "node_modules", "site", "venv"}
    for folder, folders, files in os.walk(ROOT):
        hidden = {name for name in folders if name.startswith(".") and name != ".ci"}
        folders[:] = [name for name in folders if name not in made | hidden and not name.endswith(".egg-info")]
        yield from (Path(folder, name) for name in files if name != ".git")


def test_nothing_carries_the_name_that_was_given_up() -> None:
    """The package index has a stranger's program under it."""
    old = re.compile("recol" + "lect", re.IGNORECASE)
    files = [file for file in files_of_the_clone() if file.is_file()]
    assert ROOT / "tests" / "test_architecture.py" in files
    named = [str(file) for file in files if old.search(file.relative_to(ROOT).as_posix())]
    holding = [str(file) for file in files if old.search(file.read_bytes().decode(errors="replace"))]
    assert named + holding == []


def test_the_page_on_architecture_lists_the_rooms_and_what_they_import(trees: dict[str, ast.Module]) -> None:
    """Every room stands below what it imports. What all may use, and what starts the command, are not rooms."""
    known = set(trees)
    not_rooms = {"__main__", "errors", "lazy", "loops", "per_loop", "urls"}
    found: dict[str, set[str]] = {}
    for name, tree in trees.items():
        if name.startswith("memoranda.") and (room := name.split(".")[1]) not in not_rooms:
            others = {other.split(".")[1] for other in imported(tree, known) if other.startswith("memoranda.")}
            found.setdefault(room, set()).update(others - {room, "lazy"})
    page = (ROOT / "docs" / "pages" / "explanation" / "architecture.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| ([^|]+) \|$", page, re.MULTILINE)
    assert {room: set(re.findall(r"`(\w+)`", others)) for room, others in rows} == found
    above: set[str] = not_rooms
    for room, _ in rows:
        assert found[room] <= above, room
        above |= {room}
