"""Does search find the right memory? Evidence recall on any corpora, through the public API.

    python bench/retrieval.py locomo.json logs.json [--stores memory,vector,sqlite,postgres] [--embeddings minilm]

Every turn of a conversation is one item; each question is a query in the scope of its conversation; its evidence turns
should be among the first results. Recall at k is the part of the evidence among the first k, MRR the mean of one over
the rank of the first evidence turn. No model is asked anything. A second table shows what ``recall`` returns and which
verdict it gives, for questions with and without an answer (``verdicts.py``). After all corpora comes, for each mode,
the worst: that is what a change is judged by. ``--bare`` stores the same turns without names, sessions and times.
``--items`` puts each corpus into one scope of so many items (``crowds.py``).

No data is part of this project. A file is LoCoMo's ``locomo10.json`` (github.com/snap-research/locomo), or any other
corpus in flat form: ``{"conversations": [{"id", "turns": [{"id", "session", "date", "speaker", "text"}], "questions":
[{"question", "evidence": [turn ids], "category"}]}]}``.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from crowds import OWNER, crowded
from verdicts import measure_verdicts

import memoranda
from memoranda import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.embeddings import Embeddings
from memoranda.plugins import default_registry
from memoranda.store import Store

CUTS = (5, 10, 20)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop"}
UNANSWERED = 5
"""LoCoMo's category of questions that have no answer."""

MODES = ("substring", "text", "semantic", "hybrid")


@dataclass
class Figures:
    """What was found for the questions of one store and mode."""

    recalls: dict[str, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    ranks: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def add(self, found: Sequence[str], evidence: set[str], category: int | str) -> None:
        recall = [len(evidence.intersection(found[:cut])) / len(evidence) for cut in CUTS]
        for name in ("all", str(CATEGORIES.get(category, category))):  # type: ignore[call-overload]  # other names stay
            self.recalls[name].append(recall)
        self.ranks.append(next((1 / rank for rank, key in enumerate(found, start=1) if key in evidence), 0.0))

    @property
    def at_ten(self) -> float:
        return mean(row[1] for row in self.recalls["all"])

    def row(self) -> str:
        means = [mean(column) for column in zip(*self.recalls["all"], strict=True)]
        speed = 1000 * self.seconds / len(self.ranks)
        kinds = " ".join(
            f"{name}={mean(row[1] for row in rows):.2f}" for name, rows in sorted(self.recalls.items()) if name != "all"
        )
        return "  ".join(f"{figure:>6.3f}" for figure in [*means, mean(self.ranks)]) + f"  {speed:>8.2f}  {kinds}"


def mean(values: Any) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else 0.0


def conversations(path: Path) -> list[dict[str, Any]]:
    """Return the conversations in flat form: turns, and questions with the ids of their evidence."""
    data = json.loads(path.read_text(encoding="utf-8"))
    return data["conversations"] if isinstance(data, dict) else [_flat(sample) for sample in data]


def _flat(sample: dict[str, Any]) -> dict[str, Any]:
    talk = sample["conversation"]
    sessions = sorted(int(key.split("_")[1]) for key in talk if key.startswith("session_") and key.count("_") == 1)
    turns = [
        {
            "id": turn["dia_id"],
            "session": number,
            "date": talk[f"session_{number}_date_time"],
            "speaker": turn["speaker"],
            "text": turn["text"],
            "photo": turn.get("blip_caption"),
        }
        for number in sessions
        for turn in talk[f"session_{number}"]
    ]
    return {"id": sample["sample_id"], "turns": turns, "questions": sample["qa"]}


def items_of(conversation: dict[str, Any], *, bare: bool = False) -> list[MemoryItem]:
    """Return one item for each turn: said by its speaker, half a minute after the one before.

    Bare ones have neither name nor session, and were all stored within a few seconds.
    """
    items: list[MemoryItem] = []
    turn_of_session: dict[int, int] = defaultdict(int)
    for number, turn in enumerate(conversation["turns"]):
        spoken = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(milliseconds=number)
        if not bare:
            started = datetime.strptime(turn["date"], "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
            spoken = started + timedelta(seconds=30 * turn_of_session[turn["session"]])
            turn_of_session[turn["session"]] += 1
        content = f"{turn['text']} {turn['photo']}" if turn.get("photo") else turn["text"]
        session = None if bare else f"{conversation['id']}/{turn['session']}"
        items.append(
            HumanMemory(
                id=f"{conversation['id']}/{turn['id']}",
                content=content,
                name=None if bare else turn["speaker"],
                created_at=spoken.isoformat(),
                metadata=MemoryMetadata(user_id=conversation["id"], session_id=session),
            )
        )
    return items


async def measure(store: Store, data: Sequence[dict[str, Any]], mode: Any, owner: str | None = None) -> Figures:
    """Ask every question that has evidence in this mode, in the scope of its conversation or of one owner of all."""
    figures = Figures()
    for conversation in data:
        scope = MemoryMetadata(user_id=owner or conversation["id"])
        known = {turn["id"] for turn in conversation["turns"]}
        for question in conversation["questions"]:
            evidence = {f"{conversation['id']}/{turn}" for turn in question.get("evidence", []) if turn in known}
            if question["category"] == UNANSWERED or not evidence:
                continue
            started = time.perf_counter()
            found = await store.search(query=question["question"], metadata=scope, mode=mode, limit=max(CUTS))
            figures.seconds += time.perf_counter() - started
            figures.add([item.id for item in found], evidence, question["category"])
    return figures


class Remembered(Embeddings):
    """Keeps the vectors of another embedder, so that several stores do not pay for the same text again."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._vectors: dict[str, list[float]] = {}
        self.model = embeddings.identity()

    @property
    def dimension(self) -> int:
        return self._embeddings.dimension

    def embed(self, text: str) -> list[float]:
        if text not in self._vectors:
            self._vectors[text] = self._embeddings.embed(text)
        return self._vectors[text]

    async def aembed(self, text: str) -> list[float]:
        return self.embed(text)

    async def aembed_query(self, query: str) -> list[float]:
        return await self._embeddings.aembed_query(query)

    async def aembed_many(self, texts: Sequence[str]) -> list[list[float]]:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        self._vectors.update(zip(new, await self._embeddings.aembed_many(new), strict=True))
        return [self._vectors[text] for text in texts]


@contextlib.asynccontextmanager
async def opened(name: str, embeddings: Embeddings | None) -> AsyncIterator[Store]:
    """Open a store of this kind, with the embedder where it takes one."""
    options: dict[str, Any] = {} if embeddings is None or name == "memory" else {"embeddings": embeddings}
    with contextlib.ExitStack() as stack:
        if name == "sqlite":
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = f"sqlite:///{folder}/retrieval.db"
        elif name == "postgres":
            sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))
            from servers import postgres_server

            url = os.environ.get("MEMORANDA_POSTGRES_URL") or stack.enter_context(postgres_server()).url
        else:
            url = f"{name}://"
        async with memoranda.open(url, **options) as store:
            yield store


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="LoCoMo's JSON file, or corpora in flat form")
    parser.add_argument("--stores", default="memory,vector,sqlite,postgres")
    parser.add_argument("--modes", default=",".join(MODES))
    parser.add_argument(
        "--embeddings", default="minilm", help="the name of an installed embedder; 'none' leaves it out"
    )
    parser.add_argument("--items", type=int, default=0, help="how many items one scope of everything has")
    parser.add_argument("--bare", action="store_true", help="store turns without names, sessions and times")
    asked = parser.parse_args()
    embeddings: Embeddings | None = None
    if asked.embeddings != "none":
        embeddings = Remembered(default_registry().embeddings(asked.embeddings))
    columns = [*(f"R@{cut}" for cut in CUTS), "MRR"]
    print(f"{'corpus':<14}{'store':<10}{'mode':<11}" + "  ".join(f"{name:>6}" for name in columns) + "  ms/query  R@10")
    found: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    recalled: list[str] = []
    for path in asked.data:
        data = conversations(path)
        for name in asked.stores.split(","):
            if name == "vector" and embeddings is None:
                continue
            async with opened(name, embeddings) as store:
                told = [items_of(conversation, bare=asked.bare) for conversation in data]
                for items in [crowded(told, asked.items)] if asked.items else told:
                    await store.add_many(items)
                for mode in asked.modes.split(","):
                    if mode in ("substring", *store.capabilities):
                        figures = await measure(store, data, mode, OWNER if asked.items else None)
                        found[name, mode][path.stem] = figures.at_ten
                        print(f"{path.stem:<14}{name:<10}{mode:<11}{figures.row()}", flush=True)
                told_apart = {} if asked.items else await measure_verdicts(store, data)
                for kind, verdicts in told_apart.items():
                    recalled.append(f"{path.stem:<14}{name:<10}{kind:<23}{verdicts.row()}")
    heads = "".join(f"{head:>9}" for head in ("returned", "known", "near", "unknown", "found", "named", "ten"))
    print(f"\n{'corpus':<14}{'store':<10}{'recall of questions':<23}{'asked':>6}{heads}", *recalled, sep="\n")
    if len(asked.data) > 1:
        for (name, mode), corpora in found.items():
            worst = min(corpora, key=corpora.__getitem__)
            print(f"{'worst':<14}{name:<10}{mode:<11}R@10 {corpora[worst]:.3f} on {worst}")


if __name__ == "__main__":
    asyncio.run(main())
