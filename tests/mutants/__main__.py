"""Measure the conformance kit: change one thing at a time in stores that are right, and see if the kit notices.

Each mutant runs in a process of its own. Results are written to a file as they come, so a run that is stopped goes on
where it was. A mutant that survived is tried again once the kit has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mutators import Mutant, mutants
from targets import ROOT, TARGETS, Target

FOLDER = ROOT / ".nox" / "mutants"
KIT = ROOT / "plugins" / "testing" / "src"
EQUIVALENT = Path(__file__).with_name("equivalent.toml")
SAMPLE = 170.0
"""Seconds for a sample."""
TIMEOUT = {"default": 900.0, "thorough": 3_600.0}
"""Seconds after which a mutant counts as caught: it hangs. The kit itself ends calls that hang much earlier."""


@dataclass(frozen=True)
class Result:
    """How a mutant fared."""

    name: str
    profile: str
    kit: str
    case: str
    """The case that failed; empty if the mutant survived."""
    seconds: float


def kit_version() -> str:
    """Return a hash of the kit's sources."""
    found = hashlib.sha256()
    for path in sorted(KIT.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


def all_mutants(chosen: Iterable[Target]) -> list[tuple[Target, Mutant]]:
    """Return every mutant, in an order that makes the first ones a fair sample."""
    found = [(target, mutant) for target in chosen for mutant in mutants(target.module, target.path.read_text())]
    return sorted(found, key=lambda pair: pair[1].key)


def run(target: Target, mutant: Mutant, profile: str, kit: str) -> Result:
    """Run the kit on a mutant, in a process of its own."""
    command = [sys.executable, str(Path(__file__).with_name("one.py")), target.module]
    started = time.monotonic()
    try:
        done = subprocess.run(
            [*command, *(["--thorough"] if profile == "thorough" else [])],
            input=mutant.source,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=TIMEOUT[profile],
            check=False,
        )
        case = done.stdout if done.returncode == 0 else f"exit code {done.returncode}"
    except subprocess.TimeoutExpired:
        case = "timeout"
    return Result(mutant.name, profile, kit, case, time.monotonic() - started)


def read_results(path: Path) -> Iterator[Result]:
    """Yield what earlier runs found; a line that a killed run left unfinished is skipped."""
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            yield Result(**json.loads(line))
        except (ValueError, TypeError):
            continue


def known(results: Iterable[Result], kit: str) -> dict[tuple[str, str], Result]:
    """Return the results that hold: who was caught stays caught; who survived did so with this very kit."""
    return {(each.name, each.profile): each for each in results if each.case or each.kit == kit}


def equivalents() -> dict[str, str]:
    """Return the mutants that change nothing that a caller could see, each with the reason."""
    return {each["name"]: each["reason"] for each in tomllib.loads(EQUIVALENT.read_text()).get("mutant", [])}


def report(chosen: list[tuple[Target, Mutant]], results: dict[tuple[str, str], Result], profile: str) -> str:
    """Return the result as text: a table by module, then each survivor with its diff."""
    equivalent = equivalents()
    profiles = ("default",) if profile == "default" else ("default", "thorough")
    rows: dict[str, Counter[str]] = {}
    survivors = []
    for target, mutant in chosen:
        found = [results[mutant.name, each] for each in profiles if (mutant.name, each) in results]
        row = rows.setdefault(target.label, Counter())
        row["mutants"] += 1
        if mutant.name in equivalent:
            row["equivalent"] += 1
        elif any(each.case for each in found):
            row["killed"] += 1
        elif len(found) == len(profiles):
            row["survived"] += 1
            survivors.append((target, mutant))
    lines = [f"{'module':60} mutants  killed survived equivalent  score"]
    for label, row in [*rows.items(), ("all", sum(rows.values(), Counter()))]:
        tried = row["killed"] + row["survived"]
        score = f"{row['killed'] / tried:7.1%}" if tried else "      -"
        lines.append(
            f"{label:60} {row['mutants']:7} {row['killed']:7} {row['survived']:8} {row['equivalent']:10} {score}"
        )
    for target, mutant in survivors:
        lines += ["", f"{mutant.name} {target.label}:{mutant.line} {mutant.function} ({mutant.kind})", mutant.diff]
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run what is still to be run, show the progress, and write the report; fail below ``--least``."""
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of the names of modules; all without")
    parser.add_argument("--sample", action="store_true", help="stop after three minutes")
    parser.add_argument("--thorough", action="store_true", help="run the thorough kit on what the default one misses")
    parser.add_argument("--report", action="store_true", help="run nothing, report what is known")
    parser.add_argument("--mutant", help="run one mutant by its name, and show its diff")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of results and report")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    path, kit = options.results / "results.jsonl", kit_version()
    chosen = all_mutants(
        each for each in TARGETS if not options.modules or any(part in each.label for part in options.modules)
    )
    if options.mutant:
        target, mutant = next(pair for pair in chosen if pair[1].source and pair[1].name == options.mutant)
        print(mutant.diff, run(target, mutant, "thorough" if options.thorough else "default", kit), sep="\n")
        return 0
    profile = "thorough" if options.thorough else "default"
    results, ends = known(read_results(path), kit), time.monotonic() + (SAMPLE if options.sample else float("inf"))
    seen: dict[str, tuple[Target, Mutant]] = {}
    for number, (target, mutant) in enumerate(chosen, 1):
        if time.monotonic() > ends:
            break
        if not mutant.source or mutant.name in seen:
            continue
        seen[mutant.name] = (target, mutant)
        for each in ("default", "thorough") if options.thorough else ("default",):
            default = results.get((mutant.name, "default"))
            is_known = (mutant.name, each) in results or mutant.name in equivalents() or (default and default.case)
            if is_known or options.report:
                continue
            result = results[mutant.name, each] = run(target, mutant, each, kit)
            with path.open("a") as file:
                file.write(json.dumps(vars(result)) + "\n")
            outcome = f"killed by {result.case}" if result.case else "SURVIVED"
            place = f"{target.label}:{mutant.line}"
            print(f"[{number}/{len(chosen)}] {mutant.name} {place} {mutant.kind}: {outcome}, {result.seconds:.0f} s")
            sys.stdout.flush()
    text = report(list(seen.values()), results, profile)
    (options.results / "report.txt").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
