"""Every check of the project. `nox` runs them, `nox -s NAME` one of them, `nox -l` lists them.

Nothing has to be installed first: each session makes its own environment, and the PostgreSQL and Redis that
tests need come into it from the package index. Arguments after `--` go to pytest (or to the benchmark).

The default run is meant for every change, and takes about thirteen minutes on two cores: all suites in one environment
without what is marked slow, and beside them lint, types, docs, wheels, and of what is rare (tests marked so, the oldest
releases, a distribution with nothing beside it) a stable sample. `nox -s everything` leaves nothing out, and `nox -s
scale` runs all that is about more than one server.
"""

from __future__ import annotations

import functools
import json
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path

import nox
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent
PLUGINS = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob("plugins/*/*/pyproject.toml"))
DISTRIBUTIONS = ["core", *PLUGINS]
FOLDERS = {
    tomllib.loads((ROOT / folder / "pyproject.toml").read_text())["project"]["name"]: folder for folder in DISTRIBUTIONS
}
"""The folder of each distribution."""


def session_name(distribution: str) -> str:
    """Return the name of the session that tests a distribution."""
    (package,) = (path.name for path in (ROOT / distribution / "src").iterdir() if (path / "__init__.py").is_file())
    return "core" if package == "memoranda" else package.removeprefix("memoranda_")


# Plugins for frameworks, which ask for newer releases of what they share with the others than those need.
FRAMEWORKS = [*(plugin for plugin in PLUGINS if plugin.startswith("plugins/frameworks/")), FOLDERS["memoranda-mcp"]]
FRAMEWORKS += [FOLDERS["memoranda-otel"]]
ADAPTERS = [plugin for plugin in PLUGINS if plugin.startswith("plugins/frameworks/") and "anthropic" not in plugin]
# What takes longest comes first, so that the workers end together; of the core there are many tests, all of them short.
SUITES = ["tests", *(f"{distribution}/tests" for distribution in reversed(DISTRIBUTIONS))]
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
DOCS = ROOT / "docs" / "mkdocs.yml"
EXAMPLE = ROOT / "docs" / "examples" / "memoranda-jsonl"
REPORTS = ROOT / ".nox" / "reports"
# A worker waits for processes and servers in a quarter of its time, so there is one more than there are cores. Each
# starts servers of its own, so that many more cost more than they bring. A module's tests stay with one of them, which
# makes its clusters, large tables and environments once. They run in the order of SUITES: by default the modules with
# the fewest tests come last, which are often the longest.
WORKERS = ["-n", str(min(4, (os.cpu_count() or 1) + 1)), "--dist=loadfile", "--no-loadscope-reorder"]
EVERYTHING = "--everything"
LONGEST_CASES = "random or sizes or cancelled or megabytes or large"
"""Of the kit, on the example plugin; the last `-k` that pytest is given counts."""
IN_MEMORY = 8 << 30
"""How many bytes of memory must be free for the files of tests to lie there."""
SCALE = [
    *(
        f"plugins/backends/postgres/tests/test_postgres_{name}.py"
        for name in ("pooler", "replicas", "failover", "locking")
    ),
    "plugins/backends/redis/tests/test_redis_cluster.py",
    "tests/test_many_processes.py",
]
# It looks after the servers of one of these tests; etcd, in which it agrees, is the system's or Debian's.
PATRONI = ["patroni[etcd3]>=4.1", "psycopg[binary]>=3.2"]
# They need a browser, and are collected only where they are asked for by name.
BROWSER_TESTS = "plugins/programs/inspector/tests/browser"

if os.environ.pop("PYTHONDONTWRITEBYTECODE", None):
    # Hundreds of tests start a process, and each would compile all that it imports. The sources stay as clean as asked.
    os.environ["PYTHONPYCACHEPREFIX"] = str(ROOT / ".nox" / "bytecode")

nox.needs_version = ">=2024.4.15"
nox.options.default_venv_backend = "uv|virtualenv"
nox.options.error_on_missing_interpreters = True
# Of the distributions that are used alone: the core, and of the plugins the command, a store and an integration.
ALONE_BY_DEFAULT = ["core", "cli", "sqlite", "mcp"]
nox.options.sessions = ["default"]
# What uses one core each, and a test session without workers of its own.
CHECKS = [
    ["lint"], ["types"], ["docs"], ["thirdparty"], ["wheels"], [f"alone({name})" for name in ALONE_BY_DEFAULT],
]  # fmt: skip
OLDEST = ["oldest", "--", "-n", "0"]
ONE_CORE_EACH = [
    "strands-suite", "oldest-framework", "alone", "types", "browser", "mcp_conformance", "docs", "recipes", "wheels",
    "pydantic-ai-harness", "anthropic_suite", "langchain-suite", "lint",
]  # fmt: skip
"""What `nox -s everything` runs beside each other, the longest first."""
REUSE = {"-r", "-R", "--reuse-existing-virtualenvs", "--no-install"}


@nox.session(venv_backend="none")
def default(session: nox.Session) -> None:
    """Run all suites, with a worker for each core, and beside them the checks and a sample of oldest."""
    # A worker waits for processes and servers in a quarter of its time: that is when the checks get on.
    cores = min(4, os.cpu_count() or 1)
    suites = ["suites", "--", "-n", str(cores), *session.posargs]
    run_side_by_side(session, [*CHECKS, OLDEST], at_once=(cores + 1) // 2, shown_last=suites)


@nox.session(default=False, venv_backend="none")
def checks(session: nox.Session) -> None:
    """Run lint, types, docs, wheels, thirdparty and a sample of alone, as many at once as there are cores."""
    run_side_by_side(session, CHECKS)


@nox.session(default=False, venv_backend="none")
def everything(session: nox.Session) -> None:
    """Run all there is: every suite alone, every rare set-up, the oldest releases in full, every Python found."""
    for name in (*map(session_name, DISTRIBUTIONS), "integration", "oldest", "langgraph-suite"):
        session.notify(name, [EVERYTHING, *session.posargs])
    for python in PYTHONS:
        if not runs(python):
            session.warn(f"Python {python} was not found on the PATH: nothing is tested on it.")
        elif python != ".".join(platform.python_version_tuple()[:2]):
            session.notify(f"suites-{python}", [EVERYTHING, *session.posargs])
    # What has no test workers takes one core each. It comes last here, so that its failure keeps nothing from running.
    in_full = [["openai-agents-suite", "--", EVERYTHING], ["thirdparty", "--", "-k", ""]]
    run_side_by_side(session, [*in_full, *([name] for name in ONE_CORE_EACH)])


def run_side_by_side(
    session: nox.Session, wanted: Sequence[Sequence[str]], *, at_once: int = 0, shown_last: Sequence[str] = ()
) -> None:
    """Run sessions, each with its arguments, as many at once as there are cores; the first ones begin first.

    Beside all of them runs the one that is ``shown_last``: the summary of a test session ends the output.
    """
    command = [sys.executable, "-m", "nox", "-f", __file__, *(flag for flag in sys.argv if flag in REUSE), "-s"]

    def run(names: Sequence[str]) -> tuple[bool, bytes]:
        done = subprocess.run(
            [*command, *names], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
        )
        return done.returncode == 0, done.stdout

    def show(said: bytes) -> None:
        # As a whole, so that no two of them are mixed up.
        sys.stdout.buffer.write(said)
        sys.stdout.flush()

    failed = []
    with ThreadPoolExecutor(1) as beside, ThreadPoolExecutor(at_once or min(4, os.cpu_count() or 1)) as cores:
        last = beside.submit(run, shown_last) if shown_last else None
        named = {cores.submit(run, names): names[0] for names in wanted}
        for ended in as_completed(named):
            passed, said = ended.result()
            show(said)
            failed += [] if passed else [named[ended]]
        if last is not None:
            passed, said = last.result()
            show(said)
            failed += [] if passed else [shown_last[0]]
    if failed:
        session.error(f"Look above for what is wrong in: {', '.join(failed)}.")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style and formatting."""
    session.install(*group("lint"))
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Check the types of every distribution, strictly."""
    install_everything(session, *group("types"))
    session.run("mypy")


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site; a warning is an error. The `integration` session executes its code blocks."""
    install_everything(session, *group("docs"))
    site = Path(session.create_tmp()).resolve() / "site"
    session.run("mkdocs", "build", "--strict", "-f", str(DOCS), "-d", str(site))


@nox.session
def wheels(session: nox.Session) -> None:
    """Build every wheel, install nothing else of ours, and use it from an empty folder."""
    session.install("hatchling>=1.26")
    work = Path(session.create_tmp()).resolve()
    shutil.rmtree(work, ignore_errors=True)
    built = work / "dist"
    session.run("python", "-c", BUILD, str(built), *(str(ROOT / each) for each in DISTRIBUTIONS), silent=True)
    files = sorted(str(path) for path in built.glob("*.whl"))
    if len(files) != len(DISTRIBUTIONS):
        session.error(f"{len(DISTRIBUTIONS)} wheels were expected, {len(files)} were built.")
    # A second environment: the first one has hatchling, whose dependencies would hide a missing one of ours.
    clean = work / "environment"
    scripts = clean / ("Scripts" if os.name == "nt" else "bin")
    uv = shutil.which("uv")
    if uv:
        session.run(uv, "venv", "--quiet", "--python", sys.executable, str(clean), external=True)
        session.run(uv, "pip", "install", "--quiet", "--python", str(scripts / "python"), *files, external=True)
    else:
        session.run(sys.executable, "-m", "virtualenv", "--quiet", str(clean), external=True)
        session.run(str(scripts / "python"), "-m", "pip", "install", "--quiet", *files, external=True)
    with tempfile.TemporaryDirectory() as empty, session.chdir(empty):
        environment = {"PATH": f"{scripts}{os.pathsep}{os.environ['PATH']}", "XDG_DATA_HOME": empty}
        for arguments in (["--help"], ["plugins"], ["demo"]):
            session.run(str(scripts / "memoranda"), *arguments, env=environment, external=True)
        listing = [str(scripts / "python"), "-m", "memoranda", "plugins", "--json"]
        rows = json.loads(str(session.run(*listing, env=environment, external=True, silent=True)))
    broken = [f"{row['name']}: {row['reason']}" for row in rows if row["status"] != "ok"]
    # Libraries and the kit are no plugins: they have no entry point.
    plugins = [path for path in ROOT.glob("plugins/*/*/pyproject.toml") if "[project.entry-points." in path.read_text()]
    if broken or len(rows) != len(plugins) + 1:
        session.error(f"{len(rows)} plugins were found, these among them broken: {'; '.join(broken) or 'none'}.")


# In one process: to start the builder takes longer than to build.
BUILD = """
import os, sys
from hatchling.build import build_wheel

for folder in sys.argv[2:]:
    os.chdir(folder)
    build_wheel(sys.argv[1])
"""


@nox.session
def thirdparty(session: nox.Session) -> None:
    """Install and test the example plugin as a stranger would, without the cases of the kit that take longest."""
    session.install(*paths(FOLDERS["memoranda-testing"], ()), *paths(FOLDERS["memoranda-cli"], ()), str(EXAMPLE))
    with session.chdir(EXAMPLE):
        run_pytest(session, "tests", "-k", f"not ({LONGEST_CASES})")
    session.run("memoranda", "plugins")


@nox.session
@nox.parametrize("distribution", [nox.param(path, id=session_name(path)) for path in DISTRIBUTIONS])
def alone(session: nox.Session, distribution: str) -> None:
    """Use a distribution with nothing but what it asks for beside it: import all it offers, and list it."""
    session.install(*paths(distribution, ()))
    package = "memoranda" if distribution == "core" else f"memoranda_{session_name(distribution)}"
    session.run("python", "-c", USE_ALONE, package)


# All public names, which are loaded on first use, and the plugins as the core sees them.
USE_ALONE = """
import importlib, sys
from memoranda.plugins import default_registry

package = importlib.import_module(sys.argv[1])
names = [getattr(package, name) for name in getattr(package, "__all__", ())]
rows = {plugin.name: plugin for plugin in default_registry().plugins}
assert all(row.status == "ok" for row in rows.values()), rows
print(package.__name__, "offers", len(names), "names; plugins:", *sorted(rows))
"""


@nox.session(default=False)
def browser(session: nox.Session) -> None:
    """Test the inspector in a real browser: a Chromium on the PATH, else npm's; only on request."""
    session.install(*paths(FOLDERS["memoranda-inspector"], ("test", "browser")), *group("test"))
    run_pytest(session, BROWSER_TESTS)


@nox.session(default=False)
def pictures(session: nox.Session) -> None:
    """Take the pictures of the inspector for the documentation."""
    session.install(
        *paths(FOLDERS["memoranda-inspector"], ("test", "browser")), "-e", FOLDERS["memoranda-embed-static"]
    )
    session.run("python", f"{BROWSER_TESTS}/pictures.py")


def main_tests(distribution: str) -> list[str]:
    """Return the tests to take a sample of: of a backend its conformance kit, else the whole suite."""
    kit = sorted(ROOT.glob(f"{distribution}/tests/test_*_conformance.py"))
    return [str(path.relative_to(ROOT)) for path in kit] or [f"{distribution}/tests"]


def test_suite(session: nox.Session, distribution: str) -> None:
    """Test one distribution with nothing but the core, and what its tests name, beside it."""
    install_suite(session, distribution)
    run_pytest(session, *WORKERS, f"{distribution}/tests")


def install_suite(session: nox.Session, distribution: str) -> None:
    """Install a distribution and what its tests need."""
    beside = ("memoranda-testing", "memoranda-summary") if distribution == "core" else ()
    further = [part for name in beside for part in paths(FOLDERS[name], ())]
    session.install(*paths(distribution, () if distribution == "core" else ("test",)), *further, *group("test"))


def paths(distribution: str, extras: Sequence[str]) -> list[str]:
    """Return the arguments that install a distribution with `extras`, and what it needs of this project."""
    asked = f"{distribution}[{','.join(extras)}]" if extras else distribution
    others = needs(distribution, extras)[1:]
    return [part for path in (*others, asked) for part in ("-e", path)]


def needs(distribution: str, extras: Sequence[str]) -> list[str]:
    """Return the distributions of this project that one needs with `extras`, and those that these need in turn."""
    found = [distribution]
    for path in found:  # It grows while it is read.
        project = tomllib.loads((ROOT / path / "pyproject.toml").read_text())["project"]
        # Extras that name each other are not followed: a test session asks for all of them.
        optional = project.get("optional-dependencies", {}).values() if extras and path != "core" else ()
        for requirement in (Requirement(line) for lines in (project["dependencies"], *optional) for line in lines):
            needed = FOLDERS.get(requirement.name)
            if needed is not None and needed not in found:
                found.append(needed)
    return found


def add_test_session(name: str, summary: str, run: Callable[[nox.Session], None]) -> None:
    """Make a session of tests with the Python that runs nox, and one on request for every Python that is supported."""

    def on_default(session: nox.Session) -> None:
        run(session)

    on_default.__doc__ = f"{summary}."
    nox.session(on_default, name=name)
    for python in PYTHONS:

        def on_version(session: nox.Session) -> None:
            run(session)

        on_version.__doc__ = f"{summary}, on Python {python}."
        nox.session(on_version, name=f"{name}-{python}", python=python, default=False)


def suites(session: nox.Session) -> None:
    """Test all distributions in one environment, and what needs several of them at once."""
    install_everything(session, *group("test"))
    run_pytest(session, *WORKERS, *SUITES)


def integration(session: nox.Session) -> None:
    """Test what needs several distributions at once."""
    install_everything(session, *group("test"))
    run_pytest(session, *WORKERS, "tests")


add_test_session("suites", "Test all distributions in one environment", suites)
add_test_session("integration", "Test what needs several distributions at once", integration)
for _distribution in DISTRIBUTIONS:
    add_test_session(
        session_name(_distribution),
        f"Test {_distribution} with nothing but what it needs beside it",
        functools.partial(test_suite, distribution=_distribution),
    )


@nox.session
def oldest(session: nox.Session) -> None:
    """Test with the oldest releases that the pins allow: every backend's kit in part, or every suite in full."""
    constraints = Path(session.create_tmp()) / "oldest.txt"
    python = session.run("python", "-c", "import sys; print(*sys.version_info[:2], sep='.')", silent=True)
    tested = [each for each in DISTRIBUTIONS if each not in FRAMEWORKS]
    constraints.write_text("\n".join(oldest_pins(tested, str(python).strip())) + "\n")
    ours = [part for each in tested for part in ("-e", each if each == "core" else f"{each}[test]")]
    session.install(*ours, *group("test"), "-c", str(constraints))
    # Old releases warn about newer ones of other packages; that is expected here.
    options = [*WORKERS, "-o", "filterwarnings=default"]
    if EVERYTHING in session.posargs:
        # What the kit makes of wrong stores does not depend on any of them.
        left_out = "--ignore=plugins/programs/testing/tests/test_conformance_kit.py"
        run_pytest(session, *options, left_out, *(f"{each}/tests" for each in tested))
    else:
        # One test in forty-eight and at least one of every class and module, the same ones each time.
        run_pytest(session, *options, "--sample=48", *(path for each in tested for path in main_tests(each)))


@nox.session(name="oldest-framework", default=False)
@nox.parametrize("distribution", [nox.param(path, id=session_name(path)) for path in ADAPTERS])
def oldest_framework(session: nox.Session, distribution: str) -> None:
    """Test an adapter with the oldest release of its framework that its bounds allow."""
    constraints = Path(session.create_tmp()) / "oldest.txt"
    python = session.run("python", "-c", "import sys; print(*sys.version_info[:2], sep='.')", silent=True)
    constraints.write_text("\n".join(oldest_pins([distribution], str(python).strip())) + "\n")
    session.install(*paths(distribution, ("test",)), *group("test"), "-c", str(constraints))
    # Old releases warn about newer ones of other packages; that is expected here.
    run_pytest(session, "-o", "filterwarnings=default", f"{distribution}/tests")


# The releases whose tests of stores and savers are run, and in which of their modules these are.
LANGGRAPH_TESTS = {
    "langgraph-checkpoint==4.3.1": ["test_store.py"],
    "langgraph-checkpoint-sqlite==3.1.2": [
        "test_store.py", "test_async_store.py", "test_ttl.py", "test_sqlite.py", "test_aiosqlite.py",
        "test_delta_channel_migration.py", "test_delta_parent_walk.py", "test_get_delta_channel_history.py",
    ],
    "langgraph-checkpoint-postgres==3.2.0": ["test_store.py", "test_async_store.py"],
}  # fmt: skip
LANGGRAPH_CONFORMANCE = "langgraph-checkpoint-conformance==0.0.2"


@nox.session(name="langgraph-suite")
def langgraph_suite(session: nox.Session) -> None:
    """Run LangGraph's own tests on our store and checkpointer: a sample, or all that apply."""
    suite = (ROOT / "plugins/frameworks/langgraph/tests/upstream").resolve()
    needed = [*LANGGRAPH_TESTS, LANGGRAPH_CONFORMANCE, "psycopg[binary]>=3.2", "pytest-mock"]
    session.install(*paths(FOLDERS["memoranda-langgraph"], ("test",)), *needed, *group("test"))
    whole = EVERYTHING in session.posargs
    further = [argument for argument in session.posargs if argument != EVERYTHING]
    environment = {"PYTHONPATH": os.pathsep.join([str(suite), *filter(None, [os.environ.get("PYTHONPATH")])])}
    for requirement, modules in LANGGRAPH_TESTS.items():
        name = Requirement(requirement).name
        # Their tests alone: beside the sources, these would be imported instead of the installed package.
        tests = Path(session.create_tmp()).resolve() / "tests-of" / name
        shutil.rmtree(tests, ignore_errors=True)
        shutil.copytree(unpacked_sdist(session, requirement) / "tests", tests / "tests")
        with session.chdir(tests):
            session.run(
                "pytest", "-q", "-c", str(suite / "pytest.ini"), "--rootdir", str(tests), "-p", "stand_ins", *WORKERS,
                f"--junitxml={REPORTS / f'{session.name}-{name}.xml'}", *([] if whole else ["--sample"]), *further,
                *(f"tests/{module}" for module in modules), env=environment,
            )  # fmt: skip
    ours = ["test_checkpointer_conformance.py", "test_upstream_rule.py"]
    run_pytest(session, *WORKERS, *(f"plugins/frameworks/langgraph/tests/{name}" for name in ours))


AGENTS_SDK = "openai-agents[encrypt,sqlalchemy]==0.24.0"
AGENTS_SDK_TESTS = [
    "memory/test_session.py", "memory/test_session_limit.py", "extensions/memory/test_async_sqlite_session.py",
    "extensions/memory/test_encrypt_session.py", "extensions/memory/test_sqlalchemy_session.py",
    "memory/test_openai_responses_compaction_session.py", "sandbox/test_memory.py", "test_agent_runner.py",
    "test_agent_runner_streamed.py", "test_max_turns.py", "test_programmatic_tool_calling.py", "test_soft_cancel.py",
    "test_run_impl_resume_paths.py", "test_tool_batch_failure_history.py", "test_tool_failure_boundaries.py",
]  # fmt: skip


@nox.session(name="openai-agents-suite")
def openai_agents_suite(session: nox.Session) -> None:
    """Run the Agents SDK's own tests of sessions on ours: those of its main one, or all that apply."""
    tests = Path("plugins/frameworks/openai-agents/tests").resolve()
    needed = ["aiosqlite", "inline-snapshot", "pytest-mock"]
    session.install(*paths(FOLDERS["memoranda-openai-agents"], ("test",)), AGENTS_SDK, *needed, *group("test"))
    source = unpacked_sdist(session, AGENTS_SDK)
    wanted = AGENTS_SDK_TESTS if EVERYTHING in session.posargs else AGENTS_SDK_TESTS[:3]
    report = f"--junitxml={REPORTS / 'openai-agents-suite.xml'}"
    further = [argument for argument in session.posargs if argument != EVERYTHING]
    path = os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])
    with session.chdir(source):
        session.run(
            "pytest", "-q", "-p", "sdk_suite", "--timeout=120", report, *further, *(f"tests/{name}" for name in wanted),
            env={"PYTHONPATH": path},
        )  # fmt: skip


LANGCHAIN_CORE = "langchain-core==1.7.2"
"""The newest release that the tests for integrations, ``langchain-tests``, can be installed with."""


@nox.session(name="langchain-suite", default=False)
def langchain_suite(session: nox.Session) -> None:
    """Run LangChain's own tests of histories on ours, and its tests for retrievers of integrations."""
    suite = ["plugins/frameworks/langchain/tests/langchain_suite.py", "--suite"]
    session.install(
        *paths(FOLDERS["memoranda-langchain"], ("test",)), LANGCHAIN_CORE, "langchain-tests", *group("test")
    )
    session.run("python", *suite, str(unpacked_sdist(session, LANGCHAIN_CORE)), *session.posargs)


@nox.session(name="llama-index-suite", default=False)
def llama_index_suite(session: nox.Session) -> None:
    """Run LlamaIndex's own tests of chat stores and memory on ours: give a copy of them, `-- --suite PATH`."""
    session.install(*paths(FOLDERS["memoranda-llama-index"], ("test",)), "aiosqlite", *group("test"))
    session.run("python", "plugins/frameworks/llama-index/tests/llama_index_suite.py", *session.posargs)


@nox.session(name="agent-framework-suite", default=False)
def agent_framework_suite(session: nox.Session) -> None:
    """Run the Agent Framework's own tests of sessions on ours: give a copy of them, `-- --suite PATH`."""
    session.install(*paths(FOLDERS["memoranda-agent-framework"], ("test",)), *group("test"))
    session.run("python", "plugins/frameworks/agent-framework/tests/agent_framework_suite.py", *session.posargs)


@nox.session(name="adk-suite", default=False)
def adk_suite(session: nox.Session) -> None:
    """Run ADK's own contract tests of session services on ours: give a copy of its repository, `-- --suite PATH`."""
    # What the services import that ADK's registry has beside ours, and its tests.
    needed = ["google-adk[db]", "redis", "pytest-mock"]
    session.install(*paths(FOLDERS["memoranda-adk"], ("test",)), *needed, *group("test"))
    session.run("python", "plugins/frameworks/adk/tests/adk_suite.py", *session.posargs)


STRANDS = "strands-agents==1.62.0"


@nox.session(name="strands-suite", default=False)
def strands_suite(session: nox.Session) -> None:
    """Run Strands' own tests of its session manager on our repository, on each engine."""
    session.install(*paths(FOLDERS["memoranda-strands"], ("test",)), STRANDS, "moto", *group("test"))
    suite = ["plugins/frameworks/strands/tests/strands_suite.py", "--suite", str(unpacked_sdist(session, STRANDS))]
    for engine in ("memory", "sqlite", "postgres"):
        session.run("python", *suite, "--engine", engine, *session.posargs)


@nox.session(name="pydantic-ai-harness")
def pydantic_ai_harness(session: nox.Session) -> None:
    """Test the memory files of the newest harness with the release of Pydantic AI that it asks for."""
    install_harness(session)
    run_pytest(session, "plugins/frameworks/pydantic-ai/tests")


@nox.session(name="harness-suite", default=False)
def harness_suite(session: nox.Session) -> None:
    """Run the harness's own tests of memory stores on ours: give a copy of its repository, `-- --suite PATH`."""
    install_harness(session)
    session.run("python", "plugins/frameworks/pydantic-ai/tests/harness_suite.py", *session.posargs)


def install_harness(session: nox.Session) -> None:
    """Install the newest harness, which goes together with one release of Pydantic AI."""
    servers = paths(FOLDERS["memoranda-testing"], ("postgres", "redis"))
    newest = "pydantic-ai-harness>=0.62"
    session.install(*servers, *paths(FOLDERS["memoranda-pydantic-ai"], ("harness",)), newest, *group("test"))


@nox.session
def recipes(session: nox.Session) -> None:
    """Run the classes for other frameworks that people copy, each installed as it says itself."""
    told = Path("examples/recipes/crewai_storage.py").read_text(encoding="utf-8")
    (line,) = re.findall(r"^ +pip install (.+)$", told, re.MULTILINE)
    session.install(*shlex.split(line))
    session.install(*paths(FOLDERS["memoranda-testing"], ()), *group("test"))
    run_pytest(session, "tests/test_framework_examples.py", "-k", "crewai")


def unpacked_sdist(session: nox.Session, requirement: str) -> Path:
    """Fetch the source of a pinned release into a temporary folder of the session and return where it lies."""
    folder = Path(session.create_tmp()).resolve() / "sdist"
    shutil.rmtree(folder, ignore_errors=True)
    name = Requirement(requirement).name
    pinned = f"{name}{Requirement(requirement).specifier}"
    session.install("pip")
    download = ["python", "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", name, "-d", str(folder)]
    session.run(*download, pinned)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder, filter="data")
    (unpacked,) = (path for path in folder.iterdir() if path.is_dir())
    return unpacked


@nox.session(default=False)
def scale(session: nox.Session) -> None:
    """Test what lies beyond one server, in full: poolers, replicas, failovers, clusters, many processes; in minutes."""
    install_everything(session, *group("test"), *PATRONI)
    # One after the other: each starts several servers, and takes some of them down.
    run_pytest(session, EVERYTHING, "-s", *SCALE)


ANTHROPIC_SDK = "2.8.0"
"""The release of Anthropic's SDK whose tests of its own memory tool ours has to pass."""


@nox.session(default=False)
def anthropic_suite(session: nox.Session) -> None:
    """Run the tests of the SDK's memory tool, from its source distribution, against ours."""
    install_everything(session, *group("test"), f"anthropic=={ANTHROPIC_SDK}", "pip")
    session.run("python", "plugins/frameworks/anthropic/tests/their_suite.py", ANTHROPIC_SDK)


@nox.session(default=False)
def mcp_conformance(session: nox.Session) -> None:
    """Run the protocol's own conformance suite against the MCP server; npm fetches it."""
    install_everything(session, *group("test"))
    session.run("python", "plugins/programs/mcp/tests/protocol_conformance.py")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measure every store against the engine underneath; not a test, so only on request."""
    install_everything(session)
    session.run("python", "bench", *session.posargs)


@nox.session(default=False)
def mutants(session: nox.Session) -> None:
    """Change one thing at a time in stores that are right, and see if the conformance kit notices; it takes hours.

    `-- --sample` ends after three minutes, `-- --thorough` runs the thorough kit on what the default one misses, and
    `-- sqlite/src` takes only the modules with this in their path. A run that is stopped goes on where it was.
    """
    install_everything(session, *group("test"))
    with scratch_folder() as variables:
        session.run("python", "tests/mutants", *session.posargs, env=variables)


def run_pytest(session: nox.Session, *arguments: str) -> None:
    """Run pytest on `arguments`, and leave a report from which `.ci/run` adds up the totals."""
    report = REPORTS / f"{session.name}.xml"
    with scratch_folder() as variables:
        session.run("pytest", f"--junitxml={report}", *arguments, *session.posargs, env=variables)


@contextmanager
def scratch_folder() -> Iterator[dict[str, str]]:
    """Make a folder for the files of tests in memory, and give the variable that names it; none if there is no room.

    On a slow disk, thousands of small stores would wait for it longer than everything else takes.
    """
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not memory.is_dir() or not has_room(memory):
        yield {}
        return
    with tempfile.TemporaryDirectory(prefix="memoranda-", dir=memory, ignore_cleanup_errors=True) as folder:
        yield {"TMPDIR": folder}


def has_room(memory: Path) -> bool:
    """Return True if a folder in memory takes the files of a test run, and programs in it can be started."""
    available = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    bounds = [shutil.disk_usage(memory).free, int(available[1]) << 10 if available else 0]
    bounds += [
        int(path.read_text()) for path in Path("/sys/fs/cgroup").glob("memory.max") if path.read_text() != "max\n"
    ]
    starts_programs = not os.statvfs(memory).f_flag & os.ST_NOEXEC
    return starts_programs and os.access(memory, os.W_OK) and min(bounds) > IN_MEMORY


def runs(python: str) -> bool:
    """Say whether an interpreter of that version is on the PATH; a shim of one that is switched off does not count."""
    found = shutil.which(f"python{python}")
    return found is not None and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0


def install_everything(session: nox.Session, *extra: str) -> None:
    """Install all distributions with what their tests need, the servers included."""
    ours = ["-e", "core", *(part for plugin in PLUGINS for part in ("-e", f"{plugin}[test]"))]
    session.install(*ours, *extra)


def group(name: str) -> list[str]:
    """Return the requirements of a dependency group of the root's pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return [str(requirement) for requirement in settings["dependency-groups"][name]]


def oldest_pins(distributions: Sequence[str], python: str) -> list[str]:
    """Return a constraint for every requirement of these that holds it to its lower bound on that Python."""
    lowest: dict[str, Version] = {}
    for distribution in distributions:
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
