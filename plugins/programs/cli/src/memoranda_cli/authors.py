"""``memoranda new-plugin`` and ``conform``: what the author of a plugin needs."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator
from difflib import get_close_matches
from enum import StrEnum
from importlib.metadata import distribution
from importlib.resources import files
from importlib.resources.abc import Traversable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from urllib.parse import urlsplit
from urllib.request import url2pathname

import typer

from memoranda import __version__
from memoranda.errors import InputError
from memoranda.plugins import API_VERSION, HOOKS, KINDS, Spec, hookspecs, how_to_install
from memoranda.urls import redacted, scheme_of
from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import did_you_mean, preview, progress, say, show, show_json, table, visible

if TYPE_CHECKING:
    from memoranda_testing.runner import Report

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


class Kind(StrEnum):
    """What the plugin offers. The folder of the same name in ``scaffold`` holds what only this kind has."""

    BACKEND = "backend"
    TEMPLATE = "template"
    SUMMARIZER = "summarizer"
    FACT_EXTRACTOR = "fact-extractor"
    EMBEDDINGS = "embeddings"
    TOKEN_COUNTER = "token-counter"
    ITEM_TYPE = "item-type"
    COMMAND = "command"
    RANKER = "ranker"
    RERANKER = "reranker"
    OBSERVER = "observer"


_ALSO_CALLED = {"embedder": Kind.EMBEDDINGS, "store": Kind.BACKEND}


def kind_of(word: str) -> Kind:
    """Return the kind that a word names: in the singular or plural, with a hyphen or a space."""
    name = word.lower().replace(" ", "-").removesuffix("s")
    named = {kind.value.removesuffix("s"): kind for kind in Kind} | _ALSO_CALLED
    if name not in named:
        alike = did_you_mean([named[found].value for found in get_close_matches(name, named, 1)])
        raise typer.BadParameter(f"{word!r} is not a kind of plugin.{alike} The kinds: {', '.join(Kind)}.")
    return named[name]


class _Offer(NamedTuple):
    """What a plugin of a kind offers: its spec, the module and the name of its target, and a description."""

    spec: type[Spec]
    module: str
    target: str
    description: str


_OFFERS = {
    Kind.BACKEND: _Offer(hookspecs.Backend, "store", "{}Store", "memoranda's memories in a JSON file"),
    Kind.TEMPLATE: _Offer(
        hookspecs.TemplateSpec, "template", "{}Template", "The open questions of a conversation, for memoranda"
    ),
    Kind.SUMMARIZER: _Offer(hookspecs.SummarizerSpec, "summarizer", "{}Summarizer", "A summarizer for memoranda"),
    Kind.FACT_EXTRACTOR: _Offer(
        hookspecs.FactExtractorSpec, "extractor", "{}Extractor", "A fact extractor for memoranda"
    ),
    Kind.EMBEDDINGS: _Offer(hookspecs.EmbeddingsSpec, "embeddings", "{}Embeddings", "An embedder for memoranda"),
    Kind.TOKEN_COUNTER: _Offer(hookspecs.TokenCounterSpec, "counter", "count_tokens", "A token counter for memoranda"),
    Kind.ITEM_TYPE: _Offer(hookspecs.ItemTypeSpec, "items", "{}Memory", "Tasks as memoranda's memories"),
    Kind.COMMAND: _Offer(hookspecs.CommandSpec, "command", "run", "Count the words of each speaker."),
    Kind.RANKER: _Offer(hookspecs.RankerSpec, "ranker", "{}Ranker", "A ranker of text for memoranda"),
    Kind.RERANKER: _Offer(hookspecs.RerankerSpec, "reranker", "{}Reranker", "A reranker for memoranda"),
    Kind.OBSERVER: _Offer(
        hookspecs.ObserverSpec, "observer", "{}Observer", "Takes API keys out of what memoranda stores"
    ),
}

_NEEDS = {Kind.TEMPLATE: ("memoranda-summary",), Kind.FACT_EXTRACTOR: ("memoranda-facts",)}
"""The distributions that a kind imports besides the core."""

_KIT = ("memoranda-testing",)
_TEST_NEEDS = {
    Kind.COMMAND: (*_KIT, "memoranda-cli"),
    Kind.EMBEDDINGS: (*_KIT, "memoranda-backend"),
    Kind.SUMMARIZER: (*_KIT, "memoranda-summary"),
}
"""The distributions that the tests of a kind need beyond these, where that is not the kit alone."""

_TESTING = """In a clone of memoranda, with this plugin's folder as PLUGIN:
   `pip install -c constraints.txt './core[cli]' -e 'PLUGIN[test]'`.
   Then `pytest tests` here; or `MEMORANDA_CLONE=FOLDER nox`, with the folder of the clone."""
"""How to run the tests of a new plugin, for its README."""


def new_plugin(
    name: Annotated[str, argument("NAME", "Its name: lower case, such as paper or my-engine.")],
    kind: Annotated[
        Kind, option("--kind -k KIND", f"What it offers: {', '.join(Kind)}.", parser=kind_of)
    ] = Kind.BACKEND,
    folder: Annotated[Path | None, option("--folder FOLDER", "Where to write it. [memoranda-NAME]")] = None,
    as_json: options.Json = False,
) -> None:
    """Write a whole plugin that passes its tests, to start your own from.

    A backend comes as a store over a JSON file, with the conformance kit as its tests; every other kind as a small
    example that works.
    """
    name = name.removeprefix("memoranda-")
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name for a plugin: use lower-case letters, digits and single hyphens.", field="name"
        )
    target = folder or Path(f"memoranda-{name}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise CommandError(f"{target} exists already; choose another --folder.", ExitCode.CONFLICT)
    if not target.absolute().parent.is_dir():
        raise CommandError(f"There is no folder {str(target.absolute().parent)!r}.", ExitCode.NOT_FOUND)
    written = _write(target, kind, _words(name, kind))
    if as_json:
        show_json({"folder": str(target), "kind": kind.value, "files": [str(path) for path in written]})
        return
    for path in written:
        typer.echo(str(target / path))
    _say_what_is_next(target, kind)


def _say_what_is_next(target: Path, kind: Kind) -> None:
    """Print the line that installs and tests the plugin, with what is missing from the clone that we came from."""
    needed = (*_NEEDS.get(kind, ()), *_TEST_NEEDS.get(kind, _KIT))
    missing = [name for name in needed if find_spec(name.replace("-", "_")) is None]
    clone = _clone()
    first = ""
    if missing and clone is None:
        for name in missing:
            say(f"It needs {name}: {how_to_install(name)}")
    elif missing:
        extras = ",".join(name.removeprefix("memoranda-") for name in missing)
        first = f"(cd {shlex.quote(str(clone))} && pip install -c constraints.txt './core[{extras}]') && "
    installing = "pip install -e '.[test]' && pytest tests && memoranda plugins"
    say(f"Next: {first}cd {shlex.quote(str(target))} && {installing}")


def _clone() -> Path | None:
    """Return the folder of the clone that this installation came from, or None if it came from elsewhere."""
    recorded = distribution("memoranda").read_text("direct_url.json")
    if recorded is None:
        return None
    folder = Path(url2pathname(urlsplit(json.loads(recorded)["url"]).path)).parent
    return folder if (folder / "constraints.txt").is_file() else None


def _words(name: str, kind: Kind) -> dict[str, str]:
    major, minor = __version__.split(".")[:2]
    core, next_core = f"{major}.{minor}", f"{major}.{int(minor) + 1}" if major == "0" else str(int(major) + 1)
    offer = _OFFERS[kind]

    def required(distributions: tuple[str, ...]) -> str:
        return ", ".join(f'"{name}>={core},<{next_core}"' for name in distributions)

    capitalised = "".join(part.capitalize() for part in name.split("-"))
    return {
        "name": name,
        "distribution": f"memoranda-{name}",
        "package": f"memoranda_{name.replace('-', '_')}",
        "class": capitalised,
        "description": offer.description,
        "spec": offer.spec.__name__,
        "hook": next(hook for hook, spec in HOOKS.items() if spec is offer.spec),
        "called": KINDS[offer.spec],
        "module": offer.module,
        "offered": offer.target.format(capitalised),
        "api": str(API_VERSION),
        "testing": _TESTING,
        "needs": required(("memoranda", *_NEEDS.get(kind, ()))),
        "test_needs": required(_TEST_NEEDS.get(kind, _KIT)),
    }


def _write(target: Path, kind: Kind, words: dict[str, str]) -> list[Path]:
    """Write all files beside the target first, so that it appears whole or not at all."""
    scaffold = files("memoranda_cli") / "scaffold"
    building = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.absolute().parent))
    written = set()
    try:
        building.chmod(0o755)
        for part in ("common", kind.value):  # A file of the kind replaces a common one of the same name.
            for relative, source in _files(scaffold / part):
                path = Path(*(_filled(piece, words) for piece in relative))
                (building / path).parent.mkdir(parents=True, exist_ok=True)
                (building / path).write_text(_filled(source.read_text("utf-8"), words), encoding="utf-8")
                written.add(path)
        if target.exists():
            target.rmdir()
        building.rename(target)
    except BaseException:
        shutil.rmtree(building, ignore_errors=True)
        raise
    return sorted(written)


def _files(folder: Traversable, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda entry: entry.name):
        if entry.is_dir():
            yield from _files(entry, (*above, entry.name))
        elif entry.name.endswith(".in"):
            yield (*above, entry.name.removesuffix(".in")), entry


def _filled(text: str, words: dict[str, str]) -> str:
    text = text.replace("__package__", words["package"])
    return re.sub(r"\{\{(\w+)\}\}", lambda found: words[found[1]], text)


_MARKS = {"passed": ("✔", "green"), "failed": ("✘", "red"), "skipped": ("–", "dim"), "not reached": ("?", "yellow")}


def conform(
    url: Annotated[str, argument("URL", "The store to test, such as sqlite:///test.db")],
    only: Annotated[str | None, option("--only -k TEXT", "Run the cases with this text in their names.")] = None,
    everything: Annotated[bool, option("--all -a", "Show the cases that passed, too.")] = False,
    timeout: Annotated[float, option("--timeout", "Seconds after which a case counts as not reached.", min=0.1)] = 120,
    thorough: Annotated[
        bool, option("--thorough/--quick", "Let random cases take minutes instead of seconds.")
    ] = False,
    seed: Annotated[int, option("--seed", "What random cases draw from: the same for the same seed.")] = 0,
    store_options: options.StoreOptions = None,
    as_json: options.Json = False,
) -> None:
    """Test a store against everything the protocol promises.

    Every case writes under a user that it makes up, and removes what it wrote, so a store that holds other memories is
    safe. Cases that would have to move its clock are skipped, except for memory://. The exit code is 0 if every case
    was played to its end and none failed, and 1 otherwise.
    """
    from memoranda.opening import open as open_store
    from memoranda_commands.stores import run, say_if_new

    try:
        from memoranda_testing.cases import TOPICS, case_names
        from memoranda_testing.runner import check_store
    except ModuleNotFoundError as error:
        if error.name != "memoranda_testing":
            raise
        raise CommandError(
            f"The kit is a distribution of its own. Try: {how_to_install('memoranda-testing')}"
        ) from None

    further = options.pairs(store_options, "--option")
    run(say_if_new(url, further))
    names = [name for topic in TOPICS for name in case_names(topic) if only is None or only in name]
    with progress(f"testing {redacted(url)}", len(names)) as advance:
        report = run(
            check_store(
                lambda: open_store(url, **further),
                # Only memory:// always opens a new, empty store.
                exclusive=scheme_of(url) == "memory",
                select=set(names).__contains__,
                timeout=timeout,
                thorough=thorough,
                seed=seed,
                on_result=lambda result: advance(1),
            )
        )
    if as_json:
        show_json(report.to_json())
    else:
        _show(report, everything)
    if not report.conforms:
        raise typer.Exit(ExitCode.FAILED)


def _show(report: Report, everything: bool) -> None:
    from rich.text import Text

    topics: dict[str, dict[str, int]] = {}
    for result in report.results:
        counts = topics.setdefault(result.topic, dict.fromkeys(_MARKS, 0))
        counts[result.outcome] += 1
    right = {"justify": "right", "no_wrap": True}
    rows = [(topic, *(str(counts[outcome] or "") for outcome in _MARKS)) for topic, counts in topics.items()]
    show(table("topic", *((outcome, right) for outcome in _MARKS), rows=rows))
    shown = [result for result in report.results if everything or result.outcome in ("failed", "not reached")]
    for result in shown:
        mark, style = _MARKS[result.outcome]
        line = Text(f"{mark} {result.name}", style=style)
        line.append(f"  {preview(result.title)}", style="default")
        show(line)
        if result.reason:
            show(Text(f"    {visible(result.reason)}", style="dim"))
    for reason, times in Counter(result.reason for result in report.results if result.outcome == "skipped").items():
        show(Text(f"{times} skipped: {visible(reason)}", style="dim"))
    for result in report.results:
        if result.outcome == "passed" and result.reason:
            show(Text(f"{result.name}: {visible(result.reason)}", style="dim"))
    totals = {outcome: sum(counts[outcome] for counts in topics.values()) for outcome in _MARKS}
    unreached = f", {totals['not reached']} not reached" if totals["not reached"] else ""
    verdict = "conforms" if report.conforms else "does not conform"
    summary = f"{totals['passed']} passed, {totals['failed']} failed{unreached}, in {report.seconds:.1f} s."
    show(Text(f"{visible(report.store)} {verdict}: {summary}"))
    if not report.results:
        say("No case has that text in its name.")
