"""What do search and recall find in the hand-made corpora, for each scope and kind of question?

    python bench/figures.py bench/corpora/languages bench/corpora/notes.json [--store sqlite --embeddings static]

A corpus is a list of scopes: ``{"scope", "language", "items": [{"id", "content", "name"?, "role", "session"?,
"created_at"}], "questions": [{"question", "evidence": [ids], "kind", "topic"?}]}``. The first table has, for each kind
of question, the part of the evidence among the first five and ten results and the mean of one over the rank of the
first. ``trigrams`` is BM25 over three letters each, a baseline that knows nothing about any language. The second is
about ``recall`` with its own limit and floor: how many items it returns, the part of them that is evidence, the part of
the evidence among them, and, for questions about things that were never mentioned, how often it returns nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import log
from pathlib import Path
from typing import Any

from retrieval import Remembered, mean, opened

from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.plugins import default_registry
from memoranda.store import Store

CUTS = (5, 10)
NEVER = "never"
"""The kind of question about something that was never mentioned: it has no evidence."""

MODES = ("text", "semantic", "hybrid")
TYPES: dict[str, type[MemoryItem]] = {"human": HumanMemory, "ai": AIMemory}


class Trigrams:
    """BM25 over the sequences of three letters of each item."""

    def __init__(self, items: Sequence[dict[str, Any]]) -> None:
        self._counts = {item["id"]: Counter(self._of(item["content"])) for item in items}
        self._having = Counter(term for counts in self._counts.values() for term in counts)
        self._mean = sum(counts.total() for counts in self._counts.values()) / len(items)

    @staticmethod
    def _of(text: str) -> list[str]:
        letters = " ".join(text.casefold().split())
        return [letters[start : start + 3] for start in range(len(letters) - 2)]

    def search(self, query: str) -> list[str]:
        """Return the ids of the best items that share any three letters with the query."""
        scores: dict[str, float] = defaultdict(float)
        for term in set(self._of(query)) & self._having.keys():
            rarity = log(1 + (len(self._counts) - self._having[term] + 0.5) / (self._having[term] + 0.5))
            for key, counts in self._counts.items():
                if counts[term]:
                    damping = 1.2 * (0.25 + 0.75 * counts.total() / self._mean)
                    scores[key] += rarity * 2.2 * counts[term] / (counts[term] + damping)
        return sorted(scores, key=scores.__getitem__, reverse=True)[: max(CUTS)]


@dataclass
class Found:
    """What one mode found for the questions of one kind."""

    recalls: list[list[float]] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)

    def add(self, found: Sequence[str], evidence: set[str]) -> None:
        self.recalls.append([len(evidence.intersection(found[:cut])) / len(evidence) for cut in CUTS])
        self.ranks.append(next((1 / rank for rank, key in enumerate(found, start=1) if key in evidence), 0.0))

    def extend(self, other: Found) -> None:
        self.recalls.extend(other.recalls)
        self.ranks.extend(other.ranks)

    def cells(self) -> str:
        means = [mean(column) for column in zip(*self.recalls, strict=True)]
        return " ".join(f"{figure:.3f}" for figure in [*means, mean(self.ranks)])


@dataclass
class Recalled:
    """What ``recall`` returned for the questions of one kind."""

    returned: list[int] = field(default_factory=list)
    precisions: list[float] = field(default_factory=list)
    recalls: list[float] = field(default_factory=list)

    def add(self, found: Sequence[str], evidence: set[str]) -> None:
        self.returned.append(len(found))
        if evidence:
            self.precisions.append(len(evidence.intersection(found)) / len(found) if found else 0.0)
            self.recalls.append(len(evidence.intersection(found)) / len(evidence))

    def extend(self, other: Recalled) -> None:
        self.returned.extend(other.returned)
        self.precisions.extend(other.precisions)
        self.recalls.extend(other.recalls)

    def cells(self) -> str:
        empty = mean(not count for count in self.returned)
        of_evidence = f"{mean(self.precisions):>9.3f} {mean(self.recalls):>7.3f}" if self.recalls else f"{'':>17}"
        return f"{len(self.returned):>6} {mean(self.returned):>9.1f} {of_evidence} {empty:>7.3f}"


def scopes_of(paths: Iterable[Path]) -> list[dict[str, Any]]:
    """Return the scopes of all files and folders of files; raise AssertionError where one is not valid."""
    files = [file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    scopes = [scope for file in files for scope in json.loads(file.read_text(encoding="utf-8"))]
    for scope in scopes:
        name, ids = scope["scope"], {item["id"] for item in scope["items"]}
        assert len(ids) == len(scope["items"]), f"{name} has two items with one id."
        assert len({item["content"] for item in scope["items"]}) == len(ids), f"{name} has the same content twice."
        questions = [question["question"] for question in scope["questions"]]
        assert len(set(questions)) == len(questions), f"{name} asks the same question twice."
        for question in scope["questions"]:
            assert ids.issuperset(question["evidence"]), f"{name}: {question['question']} has evidence outside of it."
            assert bool(question["evidence"]) == (question["kind"] != NEVER), f"{name}: {question['question']}"
    assert len({scope["scope"] for scope in scopes}) == len(scopes), "Two scopes have one name."
    return scopes


def memory_of(item: dict[str, Any], scope: str) -> MemoryItem:
    """Return the item as it is stored."""
    return TYPES[item["role"]](
        id=f"{scope}/{item['id']}",
        content=item["content"],
        name=item.get("name"),
        created_at=item["created_at"],
        metadata=MemoryMetadata(user_id=scope, session_id=item.get("session")),
    )


async def measure(
    store: Store, scope: dict[str, Any], modes: Sequence[Any]
) -> tuple[dict[str, dict[str, Found]], dict[str, Recalled]]:
    """Ask every question of the scope; return what each kind found by mode, and what was recalled by kind."""
    name = scope["scope"]
    await store.add_many([memory_of(item, name) for item in scope["items"]])
    trigrams = Trigrams(scope["items"])
    owner = MemoryMetadata(user_id=name)
    found: dict[str, dict[str, Found]] = defaultdict(lambda: defaultdict(Found))
    recalled: dict[str, Recalled] = defaultdict(Recalled)
    for question in scope["questions"]:
        query, kind = question["question"], " ".join([question["kind"], *question.get("topic", "").split()])
        evidence = {f"{name}/{key}" for key in question["evidence"]}
        recalled[kind].add([item.id for item in await store.recall(query, metadata=owner)], evidence)
        if evidence:
            found[kind]["trigrams"].add([f"{name}/{key}" for key in trigrams.search(query)], evidence)
            for mode in modes:
                items = await store.search(query=query, metadata=owner, mode=mode, limit=max(CUTS))
                found[kind][mode].add([item.id for item in items], evidence)
    return found, recalled


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="corpora, or folders of them")
    parser.add_argument("--store", default="memory", help="memory, vector, sqlite or postgres")
    parser.add_argument("--embeddings", default="none", help="the name of an installed embedder; memory takes none")
    asked = parser.parse_args()
    scopes = scopes_of(asked.data)
    embeddings: Embeddings | None = None
    if asked.embeddings != "none":
        embeddings = Remembered(default_registry().embeddings(asked.embeddings))
    total: dict[str, dict[str, Found]] = defaultdict(lambda: defaultdict(Found))
    total_recalled: dict[str, Recalled] = defaultdict(Recalled)
    rows: list[str] = []
    async with opened(asked.store, embeddings) as store:
        modes = [mode for mode in MODES if mode in store.capabilities]
        heads = "".join(f"  {name + ' R@5 R@10 MRR':<20}" for name in ["trigrams", *modes])
        print(f"{'scope':<18}{'kind':<13}{'items':>6}{'asked':>6}{heads}")
        for scope in scopes:
            found, recalled = await measure(store, scope, modes)
            for kind, by_mode in found.items():
                _print(scope["scope"], kind, len(scope["items"]), by_mode)
                for mode, figures in by_mode.items():
                    total[kind][mode].extend(figures)
            for kind, figures_of_recall in recalled.items():
                rows.append(f"{scope['scope']:<18}{kind:<12}{figures_of_recall.cells()}")
                total_recalled[kind].extend(figures_of_recall)
    for kind, by_mode in total.items():
        _print("all", kind, sum(len(scope["items"]) for scope in scopes), by_mode)
    rows += [f"{'all':<18}{kind:<12}{recalled.cells()}" for kind, recalled in total_recalled.items()]
    print(f"\n{'recall':<18}{'kind':<13}{'asked':>5}  returned precision  recall   empty", *rows, sep="\n")


def _print(scope: str, kind: str, items: int, by_mode: dict[str, Found]) -> None:
    cells = "".join(f"  {figures.cells():<20}" for figures in by_mode.values())
    print(f"{scope:<18}{kind:<13}{items:>6}{len(by_mode['trigrams'].ranks):>6}{cells}", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
