"""The mutants by which the conformance kit is measured: what is changed, and how a run goes on."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

MUTANTS = Path(__file__).with_name("mutants")
sys.path.insert(0, str(MUTANTS))
import mutators  # noqa: E402
import outcomes  # noqa: E402
import targets  # noqa: E402

SOURCE = '''
class Store:
    """A store."""

    async def _search(self, wanted, page):
        """Return a page."""
        async with self._lock:
            await self._read()
            self._cache.clear()
        found = [item for item in self.items if wanted.matches(item)]
        if page.offset >= 1 and not page.whole:
            return []
        for item in found:
            if item.gone:
                continue
            self._seen.append(item)
        return sorted(found, reverse=True)[page.offset : page.end]
'''


def changed(kind: str) -> list[str]:
    """Return the lines that mutants of a kind add."""
    found = [mutant for mutant in mutators.mutants("store", SOURCE) if mutant.kind == kind and mutant.source]
    return [line[1:].strip() for mutant in found for line in mutant.diff.splitlines() if line.startswith("+")]


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        ("comparison", "if page.offset > 1 and (not page.whole):"),
        ("constant", "if page.offset >= 2 and (not page.whole):"),
        ("constant", "return sorted(found, reverse=False)[page.offset:page.end]"),
        ("condition", "if page.offset >= 1:"),
        ("condition", "if False:"),
        ("condition", "found = [item for item in self.items]"),
        ("await", "self._read()"),
        ("lock", "await self._read()"),
        ("statement", "pass"),
        ("order", "return list(found)[page.offset:page.end]"),
        ("order", "self._cache.clear()"),
        ("early", "break"),
        ("slice", "return sorted(found, reverse=True)[:page.end]"),
    ],
)
def test_one_thing_is_changed(kind: str, line: str) -> None:
    assert line in changed(kind)


def test_every_mutant_differs_and_compiles() -> None:
    found = [mutant for mutant in mutators.mutants("store", SOURCE) if mutant.source]
    assert len({mutant.name for mutant in found}) == len({mutant.source for mutant in found}) > 20
    for mutant in found:
        compile(mutant.source, "store", "exec")
    assert "A store" not in "".join(changed("statement"))


def test_statements_whose_order_does_not_matter_are_not_swapped() -> None:
    lines = ("self.a = a", "self.b = b", "self.c = self.b", "self.d = g()")
    source = "class A:\n  def f(self, a, b):\n" + "".join(f"    {line}\n" for line in lines)
    swapped = [mutant.diff for mutant in mutators.mutants("store", source) if mutant.kind == "order"]
    assert len(swapped) == 2  # Not the first two, which have nothing in common.


def test_every_module_that_is_mutated_is_there() -> None:
    assert [target.label for target in targets.TARGETS if not target.path.is_file()] == []


@pytest.mark.slow
def test_every_equivalent_mutant_is_argued_and_still_there() -> None:
    argued = tomllib.loads((MUTANTS / "equivalent.toml").read_text())["mutant"]
    assert all(len(each["reason"]) > 10 and each["where"] for each in argued)
    for target in targets.TARGETS:
        here = [each for each in argued if target.path.name in each["where"]]
        for mutant in mutators.mutants(target.module, target.path.read_text()) if here else ():
            if any(mutant.function in each["where"] for each in here) and mutant.source:
                here = [each for each in here if each["name"] != mutant.name]
        argued = [each for each in argued if target.path.name not in each["where"] or each in here]
    assert argued == []


def run(*arguments: Any) -> str:
    """Run the tool and return what it prints."""
    command = [sys.executable, str(MUTANTS), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout


def test_a_run_goes_on_where_it_was(tmp_path: Path) -> None:
    first = {"profile": "default", "kit": "an earlier one", "case": "test_limits_cut_the_result", "seconds": 1.0}
    every = mutators.mutants("four_methods", targets.TARGETS[2].path.read_text())
    names = sorted({mutant.name for mutant in every if mutant.source})
    lines = [json.dumps({"name": name, **first}) for name in names[1:]]
    (tmp_path / "results.jsonl").write_text("\n".join(lines) + '\n{"half a li')
    row = run("four_methods", "--report", "--results", tmp_path).splitlines()[1].split()
    mutants, killed, survived, equivalent = map(int, row[1:5])
    assert mutants == len(names)
    assert killed + equivalent >= len(names) - 1
    assert survived == 0
    assert (tmp_path / "report.txt").read_text().startswith("module")


def test_every_beginning_of_the_order_is_a_fair_sample() -> None:
    every = outcomes.all_mutants(targets.TARGETS, seed=1)
    stores = Counter(target.store for target, _ in every)
    first = Counter(target.store for target, _ in every[: len(every) // 10])
    assert {store: round(count / 10) for store, count in stores.items()} == pytest.approx(first, abs=1)
    assert every[:20] != outcomes.all_mutants(targets.TARGETS, seed=2)[:20]


def test_the_interval_holds_what_a_sample_says() -> None:
    assert outcomes.interval(90, 100) == pytest.approx((0.826, 0.945), abs=0.001)  # From a table of Wilson's.
    assert outcomes.interval(0, 10)[0] == pytest.approx(0.0)


@pytest.mark.rare
def test_a_mutant_is_caught(tmp_path: Path) -> None:
    every = mutators.mutants("four_methods", targets.TARGETS[2].path.read_text())
    mutant = next(each for each in every if each.kind == "slice" and each.source)
    printed = run("four_methods", "--mutant", mutant.name, "--results", tmp_path)
    assert "killed by test_" in printed
    assert mutant.diff in printed


@pytest.mark.slow
@pytest.mark.parametrize("target", {target.store: target for target in targets.TARGETS}.values(), ids=lambda t: t.store)
def test_a_store_without_a_change_survives(target: targets.Target) -> None:
    program = f"""
import sys, time
sys.path.insert(0, {str(MUTANTS)!r})
from kit_run import KitRun, import_the_rest
from targets import TARGETS
target = next(each for each in TARGETS if each.module == {target.module!r})
import_the_rest()
run = KitRun.begin(target, target.path.read_text(), [], thorough=False, timeout=900)
while (case := run.result()) is None:
    time.sleep(0.1)
print(repr(case))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=1_000, check=True)
    assert done.stdout.strip() == "''"
