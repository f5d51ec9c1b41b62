"""Measure the conformance kit: change one thing at a time in stores that are right, and see if the kit notices.

The mutants of every store come in a random order, in proportion to their number, so those that were run are a fair
sample. Results are written to a file as they come, so a run that is stopped goes on where it was. Survivors are tried
again once the kit has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import sys
import time
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path

from kit_run import KitRun, import_the_rest
from mutators import Mutant
from outcomes import Result, all_mutants, equivalents, known, read_results, report
from targets import ROOT, TARGETS, Target

FOLDER = ROOT / ".nox" / "mutants-found"  # Not the folder of the session, which nox makes anew each time.
KIT = ROOT / "plugins" / "programs" / "testing" / "src"
SAMPLE, SAMPLE_ENDS = 110.0, 170.0
"""Seconds in which a sample begins with further mutants, and after which it waits for none."""
TIMEOUT = {"default": 900.0, "thorough": 3_600.0}
"""Seconds after which a mutant counts as caught: it hangs. The kit itself ends calls that hang much earlier."""


def kit_version() -> str:
    """Return a hash of the kit's sources."""
    found = hashlib.sha256()
    for path in sorted(KIT.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:12]


@dataclass
class Work:
    """Runs the kit on mutants, several at once, and writes down how each fared."""

    path: Path
    kit: str
    results: dict[tuple[str, str], Result]
    jobs: int
    argued: Container[str]
    """The mutants that are equivalent."""
    looked_at: int = 0
    """How many mutants of the order were run, or known before."""
    _running: dict[int, tuple[KitRun, Target, Mutant]] = field(default_factory=dict)
    _killers: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """The cases that killed mutants of a module, the last one first."""

    def run(self, chosen: Sequence[tuple[Target, Mutant]], profile: str, begin_until: float, end_at: float) -> None:
        """Run the mutants whose fate is not known, in order, and show the progress."""
        began, done, queue, more = time.monotonic(), 0, enumerate(chosen, 1), True
        try:
            while more or self._running:
                while more and len(self._running) < self.jobs:
                    self.looked_at, pair = next(queue, (len(chosen), None))
                    more = pair is not None and time.monotonic() < begin_until
                    if pair is not None and more and not self._is_known(pair[1], profile):
                        self._begin(*pair, profile)
                for target, mutant, result in self._ended(profile):
                    done += 1
                    pace = (time.monotonic() - began) / done
                    left = f"{60 / pace:.0f} a minute, {pace * (len(chosen) - self.looked_at) / 60:.0f} minutes left"
                    outcome = f"killed by {result.case}" if result.case else "SURVIVED"
                    place = f"{target.label}:{mutant.line} {mutant.kind}"
                    print(f"[{self.looked_at}/{len(chosen)}, {left}] {mutant.name} {place}: {outcome}", flush=True)
                if time.monotonic() > end_at:
                    return
        finally:
            for run, *_ in self._running.values():
                run.end()

    def _ended(self, profile: str) -> Iterator[tuple[Target, Mutant, Result]]:
        """Wait a moment, and yield the mutants whose fate is known now."""
        wait([each[0].connection for each in self._running.values()], 1.0)
        for pid, (run, target, mutant) in list(self._running.items()):
            case = run.result()
            if case is not None:
                del self._running[pid]
                result = Result(mutant.name, profile, self.kit, case, run.seconds)
                self._note(result, target)
                yield target, mutant, result

    def _is_known(self, mutant: Mutant, profile: str) -> bool:
        """Return True if there is nothing to run."""
        if not mutant.source or mutant.name in self.argued:
            return True
        default = self.results.get((mutant.name, "default"))
        return (mutant.name, profile) in self.results or bool(default and default.case)

    def _begin(self, target: Target, mutant: Mutant, profile: str) -> None:
        first, thorough = self._killers[target.module][:5], profile == "thorough"
        run = KitRun.begin(target, mutant.source, first, thorough=thorough, timeout=TIMEOUT[profile])
        self._running[run.pid] = run, target, mutant

    def _note(self, result: Result, target: Target) -> None:
        self.results[result.name, result.profile] = result
        with self.path.open("a") as file:
            file.write(json.dumps(vars(result)) + "\n")
        if result.case:
            killers = self._killers[target.module]
            self._killers[target.module] = [result.case, *(case for case in killers if case != result.case)]


def main() -> int:
    """Run what is still to be run, show the progress, and write the report."""
    parser = argparse.ArgumentParser(prog="nox -s mutants --", description=__doc__)
    parser.add_argument("modules", nargs="*", help="parts of the names of modules; all without")
    parser.add_argument("--sample", action="store_true", help="stop after three minutes")
    parser.add_argument("--thorough", action="store_true", help="run the thorough kit on what the default one misses")
    parser.add_argument("--report", action="store_true", help="run nothing, report what is known")
    parser.add_argument("--mutant", action="append", default=[], help="run this one, and show its diff")
    parser.add_argument("--seed", type=int, default=0, help="another order, for another sample")
    parser.add_argument("--most", type=int, help="take only so many, the first of that order")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    parser.add_argument("--results", type=Path, default=FOLDER, help="folder of results and report")
    options = parser.parse_args()
    options.results.mkdir(parents=True, exist_ok=True)
    path, kit, began = options.results / "results.jsonl", kit_version(), time.monotonic()
    chosen = all_mutants(
        (each for each in TARGETS if not options.modules or any(part in each.label for part in options.modules)),
        options.seed,
    )[: options.most]
    results = known(read_results(path), kit)
    argued: Container[str] = equivalents()
    if options.mutant:
        chosen = [(target, mutant) for target, mutant in chosen if mutant.source and mutant.name in options.mutant]
        results, argued = {}, ()
        print(*(mutant.diff for _, mutant in chosen), sep="\n\n")
    begin_until, end_at = (began + SAMPLE, began + SAMPLE_ENDS) if options.sample else (math.inf, math.inf)
    if not options.report:
        import_the_rest()
        for profile in ("default", "thorough") if options.thorough else ("default",):
            work = Work(path, kit, results, options.jobs, argued)
            work.run(chosen, profile, begin_until, end_at)
            chosen = chosen[: work.looked_at] if options.sample else chosen
    text = report(chosen, results, "thorough" if options.thorough else "default")
    (options.results / "report.txt").write_text(text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
