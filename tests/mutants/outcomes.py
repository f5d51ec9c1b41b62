"""What is known of mutants: the order in which they come, how those that were run fared, and the report."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from mutators import Mutant, mutants
from targets import Target

EQUIVALENT = Path(__file__).with_name("equivalent.toml")


@dataclass(frozen=True)
class Result:
    """How a mutant fared."""

    name: str
    profile: str
    kit: str
    case: str
    """The case that failed; empty if the mutant survived."""
    seconds: float


def all_mutants(chosen: Iterable[Target], seed: int) -> list[tuple[Target, Mutant]]:
    """Return every mutant, in a random order of which any beginning has the same share of each store's mutants."""
    by_store: dict[str, list[tuple[Target, Mutant]]] = defaultdict(list)
    for target in chosen:
        by_store[target.store] += [(target, each) for each in mutants(target.module, target.path.read_text())]
    placed = []
    for pairs in by_store.values():
        pairs.sort(key=lambda pair: hashlib.sha256(f"{seed}/{pair[1].key}".encode()).digest())
        placed += [((number + 0.5) / len(pairs), pair) for number, pair in enumerate(pairs)]
    return [pair for _, pair in sorted(placed, key=lambda each: each[0])]


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


def interval(part: int, whole: int) -> tuple[float, float]:
    """Return the share of a part with 95% confidence, after Wilson."""
    share, square = part / whole, 1.96**2
    middle = (share + square / (2 * whole)) / (1 + square / whole)
    spread = 1.96 * math.sqrt(share * (1 - share) / whole + square / (4 * whole**2)) / (1 + square / whole)
    return middle - spread, middle + spread


def report(chosen: list[tuple[Target, Mutant]], results: dict[tuple[str, str], Result], profile: str) -> str:
    """Return the result as text: a table by module, then each survivor with its diff."""
    equivalent = equivalents()
    profiles = ("default",) if profile == "default" else ("default", "thorough")
    rows: dict[str, Counter[str]] = {}
    survivors = []
    seen = set()
    for target, mutant in chosen:
        if not mutant.source or mutant.name in seen:
            continue
        seen.add(mutant.name)
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
    rows["all"] = sum(rows.values(), Counter())
    lines = [f"{'module':60} mutants  killed survived equivalent  score"]
    for label, row in rows.items():
        tried = row["killed"] + row["survived"]
        score = f"{row['killed'] / tried:7.1%}" if tried else "      -"
        lines.append(
            f"{label:60} {row['mutants']:7} {row['killed']:7} {row['survived']:8} {row['equivalent']:10} {score}"
        )
    tried = rows["all"]["killed"] + rows["all"]["survived"]
    if tried:
        low, high = interval(rows["all"]["killed"], tried)
        lines.append(f"Of {tried:,} mutants that are not equivalent, {rows['all']['killed']:,} were killed.")
        lines.append(f"The share among all of them is between {low:.1%} and {high:.1%} (95% confidence).")
    for target, mutant in survivors:
        lines += ["", f"{mutant.name} {target.label}:{mutant.line} {mutant.function} ({mutant.kind})", mutant.diff]
    return "\n".join(lines) + "\n"
