"""What is each weight of a ranking worth, and does what is chosen on some corpora serve another?

    python bench/weights.py locomo.json logs.json [--embeddings minilm] [--changes none,bare,users] [--every 4]

Corpora are those of ``bench/retrieval.py``. Each is ranked as it is and as ``--changes`` says: ``bare`` without names,
sessions and times, ``notes`` so and in no order, ``lower`` without capitals and punctuation, ``pairs`` with every two
turns in one item, ``pieces`` with an item for each sentence, ``users`` with the turns of users alone. The first table
has R@10 of plain BM25, below which nothing should fall, and of every weight at another value; the second chooses, for
each corpus, the value that is best for the worst of the others, and shows what it gives on the one that was left out.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, islice
from math import log
from pathlib import Path
from typing import Any

from retrieval import UNANSWERED, Remembered, conversations, items_of

from memoranda import MemoryItem
from memoranda.embeddings import Embeddings
from memoranda.plugins import default_registry
from memoranda_backend.ranking import (
    Passage,
    Weights,
    cosines,
    embed_passages,
    embed_texts,
    held_back,
    index_words,
    pack_vector,
    passage_of,
    query_terms,
    query_without_names,
    rank_hybrid,
    taking_part,
)
from memoranda_backend.text.stemming import stemmer_of

Evidence = list[set[str]]
"""For each turn that answers a question, the items that hold it."""

VALUES: dict[str, dict[str, float]] = {
    "neighbours": {"before": 0, "after": 0},
    "answer": {"answer": 0},
    "same speaker": {"same_speaker": 1},
    "coherence": {"coherence": 0},
    "own": {"own": 0},
    "speakers": {"speaker": 0, "asked_speaker": 0},
    "date": {"date": 0},
    "passages": {"passage": 0},
    "damping": {"damping": 0},
    "damping .3": {"damping": 0.3},
    "letters": {"letters": 0},
    "session": {"session": 0},
    "time": {"time": 0},
    "statement": {"statement": 0},
    "length .75": {"length": 0.75},
    "semantic × .5": {"semantic": 0.5},
    "semantic × 1.5": {"semantic": 1.5},
}
"""What is tried, each alone; that of ``semantic`` is a factor, since embedders are trusted differently."""


def as_it_is(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield each item with the ids of the turns that it holds."""
    for item in items:
        yield item, {item.id}


def lowered(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield the items without capitals and punctuation, as many people type."""
    for item in items:
        yield item.model_copy(update={"content": re.sub(r"[?!.,;:]", "", item.content.lower())}), {item.id}


def in_pairs(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield every two turns of a session as one item without an owner."""
    for _, session in groupby(items, key=lambda item: item.metadata.session_id):
        turns = list(session)
        for first in range(0, len(turns), 2):
            pair = turns[first : first + 2]
            content = "\n".join(turn.content for turn in pair)
            yield pair[0].model_copy(update={"content": content, "name": None}), {turn.id for turn in pair}


def in_pieces(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield each sentence as an item, of long turns every four sentences."""
    for item in items:
        sentences = [part for part in re.split(r"(?<=[.!?])\s+|\n\n+", item.content) if part.strip()]
        size = 1 if len(sentences) < 8 else 4
        for first in range(0, len(sentences), size):
            content = " ".join(sentences[first : first + size])
            yield item.model_copy(update={"id": f"{item.id}#{first}", "content": content}), {item.id}


def in_no_order(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield the items as notes that have nothing to do with those beside them."""
    return as_it_is(random.Random(1).sample(items, len(items)))


def of_users(items: list[MemoryItem]) -> Iterator[tuple[MemoryItem, set[str]]]:
    """Yield the turns that no assistant said."""
    return as_it_is([item for item in items if item.name != "assistant"])


CHANGES: dict[str, Callable[[list[MemoryItem]], Iterator[tuple[MemoryItem, set[str]]]]] = {
    "none": as_it_is, "bare": as_it_is, "notes": in_no_order, "lower": lowered, "pairs": in_pairs, "pieces": in_pieces,
    "users": of_users,
}  # fmt: skip


class Scope:
    """A conversation as ranking sees it, with its questions."""

    def __init__(self, conversation: dict[str, Any], change: str, every: int) -> None:
        stored = list(CHANGES[change](items_of(conversation, bare=change in ("bare", "notes"))))
        passages = [passage_of(item, index_words(item.content)) for item, _ in stored]
        self.texts = [passage.text for passage in passages]
        self.keys = [passage.key for passage in passages]
        self.counts = [Counter(map(stemmer_of(None), passage.terms or ())) for passage in passages]
        sessions: dict[str | None, list[Passage]] = {}
        for (item, _), passage in zip(stored, passages, strict=True):
            sessions.setdefault(item.metadata.session_id, []).append(passage)
        self.windows = list(sessions.values())
        heard = [(item.name, item.content) for item, _ in stored]
        self.questions: list[tuple[str, str, Evidence]] = []
        for question in conversation["questions"]:
            turns = [f"{conversation['id']}/{turn}" for turn in dict.fromkeys(question.get("evidence", []))]
            held = [{item.id for item, ids in stored if turn in ids} for turn in turns]
            if question["category"] != UNANSWERED and any(held):
                text = question["question"]
                embedded = query_without_names(text, taking_part(text, heard))
                self.questions.append((text, embedded, [found for found in held if found]))
        self.questions = self.questions[::every]
        self.similarities: list[dict[str, float]] = [{} for _ in self.questions]

    async def embed(self, embeddings: Embeddings) -> None:
        """Compare every question with every item."""
        usual = Weights()
        vectors = await embed_passages(embeddings, self.texts, usual.passage)
        packed = [pack_vector(vector, embeddings.dimension) for passages in vectors for vector in passages]
        asked = await embed_texts(embeddings, [embedded for _, embedded, _ in self.questions], query=True)
        self.similarities = []
        for query in asked:
            found = iter(cosines(query, packed))
            best = [held_back(max(islice(found, len(each))), len(each), usual.damping) for each in vectors]
            self.similarities.append(dict(zip(self.keys, best, strict=True)))

    def by_bm25(self, query: str) -> list[str]:
        """Return the first ten by BM25 over the words of each item, without anything else."""
        scores: Counter[str] = Counter()
        mean = sum(counts.total() for counts in self.counts) / len(self.counts)
        for term in query_terms(query):
            having = [(key, counts) for key, counts in zip(self.keys, self.counts, strict=True) if term in counts]
            rarity = log(1 + (len(self.keys) - len(having) + 0.5) / (len(having) + 0.5))
            for key, counts in having:
                damping = 1.2 * (0.25 + 0.75 * counts.total() / mean)
                scores[key] += rarity * 2.2 * counts[term] / (counts[term] + damping)
        return [key for key, _ in scores.most_common(10)]

    def recalls(self, weights: Weights | None) -> Iterator[float]:
        """Yield for each question the part of its evidence that is among the first ten; without weights, by BM25."""
        for (query, _, evidence), similar in zip(self.questions, self.similarities, strict=True):
            if weights is None:
                found = set(self.by_bm25(query))
            else:
                ranked = rank_hybrid(query, self.windows, similar, total=len(self.keys), weights=weights, limit=10)
                found = {scored.key for scored in ranked}
            yield sum(not found.isdisjoint(held) for held in evidence) / len(evidence)


def at_ten(scopes: Sequence[Scope], weights: Weights | None) -> float:
    """Return the mean of all questions of a corpus."""
    recalls = [recall for scope in scopes for recall in scope.recalls(weights)]
    return sum(recalls) / len(recalls)


def changed(usual: Weights, values: dict[str, float]) -> Weights:
    """Return the weights with these values."""
    values = dict(values)
    if "semantic" in values:
        values["semantic"] = min(1.0, usual.semantic * values["semantic"])
    return replace(usual, **values)  # type: ignore[arg-type]  # The names are those of fields.


def crossed(table: dict[str, dict[str, float]], corpora: Sequence[str]) -> Iterator[str]:
    """Yield what is chosen without each corpus, and what it does to it."""
    for left_out in corpora:
        others = [name for name in corpora if name != left_out]
        gain = {label: min(row[name] - table["as it is"][name] for name in others) for label, row in table.items()}
        chosen = max(gain, key=gain.__getitem__)
        yield f"{left_out:<20}{chosen:<18}{table['as it is'][left_out]:.3f} → {table[chosen][left_out]:.3f}"


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="+", help="LoCoMo's JSON file, or corpora in flat form")
    parser.add_argument("--changes", default="none", help=f"of {', '.join(CHANGES)}")
    parser.add_argument("--embeddings", default="none", help="the name of an installed embedder; 'none' ranks by words")
    parser.add_argument("--every", type=int, default=1, help="ask every n-th question alone")
    parser.add_argument("--only", default="", help="the labels to try instead of all; 'none' tries nothing")
    asked = parser.parse_args()
    embeddings = None if asked.embeddings == "none" else Remembered(default_registry().embeddings(asked.embeddings))
    usual = Weights()
    corpora: dict[str, list[Scope]] = {}
    for path in asked.data:
        for change in asked.changes.split(","):
            scopes = [Scope(conversation, change, asked.every) for conversation in conversations(path)]
            for scope in scopes:
                if embeddings is not None:
                    await scope.embed(embeddings)
            corpora[path.stem if change == "none" else f"{path.stem}-{change}"] = scopes
    table: dict[str, dict[str, float]] = {}
    print(f"{'R@10 with':<18}" + "".join(f"{name:>20}" for name in corpora) + f"{'worst change':>15}")
    plain = "".join(f"{at_ten(scopes, None):>20.3f}" for scopes in corpora.values())
    print(f"{'plain BM25':<18}{plain}")
    for label, values in {"as it is": {}, **VALUES}.items():
        if label != "as it is" and asked.only and label not in asked.only.split(","):
            continue
        weights = changed(usual, values)
        table[label] = {name: at_ten(scopes, weights) for name, scopes in corpora.items()}
        worst = min(figure - table["as it is"][name] for name, figure in table[label].items())
        print(f"{label:<18}" + "".join(f"{figure:>20.3f}" for figure in table[label].values()) + f"{worst:>+15.3f}")
    if len(corpora) > 1:
        print(f"\n{'left out':<20}{'chosen without':<18}as it is → as chosen")
        print("\n".join(crossed(table, list(corpora))))


if __name__ == "__main__":
    asyncio.run(main())
