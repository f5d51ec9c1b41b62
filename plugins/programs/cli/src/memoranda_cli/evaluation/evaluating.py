"""Asking a store questions whose right items are known, in each mode and with each embedder."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any, Literal, get_args

from memoranda.embeddings import Embeddings
from memoranda.errors import InputError, UnsupportedError
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.plugins import default_registry
from memoranda.store import EVERYTHING, Store
from memoranda_cli.evaluation.questions import EvalQuestion
from memoranda_sqlite import SQLiteMemoryStore

Mode = Literal["text", "semantic", "hybrid", "recall"]
"""A mode of ``search``, or the store's ``recall`` with its relevance floor."""
MODES: tuple[Mode, ...] = get_args(Mode)
CUTS = (1, 5, 10, 20)
BATCH = 200

Bars = Callable[[str, int | None], AbstractContextManager[Callable[[int], None]]]
"""Shows progress while a block runs: gets what is done and how many steps it has; the block reports each step."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one search found: the rank of each right item, or None, and the item that came first."""

    question: EvalQuestion
    ranks: tuple[int | None, ...]
    hits: tuple[bool, ...] = field(repr=False)
    """For each result, True if it is right."""
    seconds: float
    right: tuple[MemoryItem, ...] = field(repr=False)
    first: MemoryItem | None = field(repr=False)

    def recall(self, k: int) -> float:
        """Return the share of the right items that are among the first ``k`` results."""
        return fmean(rank is not None and rank <= k for rank in self.ranks)

    def precision(self, k: int) -> float:
        """Return the share of the first ``k`` results that are right; 0 if there are none."""
        return fmean(self.hits[:k]) if self.hits else 0.0

    @property
    def reciprocal_rank(self) -> float:
        """One over the rank of the first right item; 0 if none was found."""
        return max((1 / rank for rank in self.ranks if rank is not None), default=0.0)


@dataclass(frozen=True, slots=True)
class Score:
    """How well one mode with one embedder does. ``embedder`` is empty for the store's own way of searching."""

    mode: str
    embedder: str
    outcomes: tuple[Outcome, ...] = field(repr=False)

    def recall(self, k: int) -> float:
        """Return the mean recall among the first ``k`` results."""
        return fmean(outcome.recall(k) for outcome in self.outcomes)

    def precision(self, k: int) -> float:
        """Return the mean precision of the first ``k`` results."""
        return fmean(outcome.precision(k) for outcome in self.outcomes)

    @property
    def mrr(self) -> float:
        """The mean reciprocal rank of the first right item."""
        return fmean(outcome.reciprocal_rank for outcome in self.outcomes)

    @property
    def milliseconds(self) -> float:
        """The median time of a search."""
        return 1000 * median(outcome.seconds for outcome in self.outcomes)

    @property
    def results(self) -> float:
        """The mean number of results of a search."""
        return fmean(len(outcome.hits) for outcome in self.outcomes)

    def misses(self, k: int) -> list[Outcome]:
        """Return the searches that did not find every right item among the first ``k`` results."""
        return [outcome for outcome in self.outcomes if outcome.recall(k) < 1]


@dataclass(frozen=True, slots=True)
class Report:
    """The scores of all modes and embedders on the same questions."""

    scores: tuple[Score, ...]
    k: tuple[int, ...]
    questions: int
    """How many questions were asked."""
    unknown: tuple[EvalQuestion, ...] = ()
    """The questions whose right items are not in the store; they are not asked."""
    partly_unknown: tuple[EvalQuestion, ...] = ()
    """The questions with some right items that are not in the store; the others count."""

    @property
    def main_k(self) -> int:
        """The number of results that precision and misses are about: 10, as in a search without a limit, if it is one
        of ``k``, or else the largest."""
        return 10 if 10 in self.k else self.k[-1]


@contextmanager
def _no_bar(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    yield lambda done: None


async def evaluate(
    store: Store,
    questions: Iterable[EvalQuestion],
    *,
    modes: Iterable[Mode] | None = None,
    embedders: Iterable[str | Embeddings] = (),
    k: Iterable[int] = CUTS,
    progress: Bars = _no_bar,
) -> Report:
    """Ask every question in every mode, one after the other, and return how many of the right items were found.

    ``modes`` are by default all that the store has. The store is only read. For each of ``embedders``, an object or the
    name of an installed one, the searched scopes are copied to a temporary store in memory, and the modes that compare
    meanings are asked there, too. ``k`` are the numbers of results to look at.

    Raises InputError if no right item is in the store, and for a mode that neither the store nor an embedder gives.
    """
    cuts = _checked_cuts(k)
    targets = [await _resolved(store, question) for question in questions]
    known = [target for target in targets if target.groups]
    if not known:
        raise InputError(
            f"None of the right items of the {len(targets):,} questions is in the store and scope that is searched.",
            field="questions",
        )
    made = [
        (_label(each), default_registry().embeddings(each) if isinstance(each, str) else each) for each in embedders
    ]
    own, copied = _planned(store, modes, with_embedder=bool(made))
    scores: list[Score] = []
    with progress("asking", len(known) * len(own)) as advance:
        scores += [await _scored(store, known, mode, "", cuts[-1], advance) for mode in own]
    for label, embeddings in made:
        async with _copy(store, known, embeddings, label, progress) as copy:
            with progress(f"asking {label}", len(known) * len(copied)) as advance:
                scores += [await _scored(copy, known, mode, label, cuts[-1], advance) for mode in copied]
    return Report(
        tuple(scores),
        cuts,
        len(known),
        tuple(target.question for target in targets if not target.groups),
        tuple(target.question for target in targets if target.groups and target.unknown),
    )


def _checked_cuts(k: Iterable[int]) -> tuple[int, ...]:
    cuts = tuple(sorted(set(k)))
    if not cuts or cuts[0] < 1:
        raise InputError("k takes numbers of results, each at least 1.", field="k")
    return cuts


def _label(embedder: str | Embeddings) -> str:
    return embedder if isinstance(embedder, str) else embedder.identity()


def _planned(store: Store, modes: Iterable[Mode] | None, *, with_embedder: bool) -> tuple[list[Mode], list[Mode]]:
    """Return the modes to ask the store in, and those to ask its copies in."""
    asked = MODES if modes is None else tuple(dict.fromkeys(modes))
    has = {*store.capabilities, *(["recall"] if "text" in store.capabilities else [])}
    own: list[Mode] = [mode for mode in asked if mode in has]
    copied: list[Mode] = [mode for mode in asked if with_embedder and mode in MODES[1:]]
    for mode in asked:
        if mode not in MODES:
            raise InputError(f"There is no mode {mode!r}. The modes are {', '.join(MODES)}.", field="modes")
        if modes is not None and mode not in (*own, *copied):
            raise UnsupportedError(store.label, f"{mode} search", remedy="Name an embedder, or another mode.")
    if not own and not copied:
        raise UnsupportedError(store.label, "ranked search", remedy="Name an embedder to evaluate a copy with.")
    return own, copied


@dataclass(frozen=True, slots=True)
class _Target:
    """A question and its right items: for each the ids that will do, and one of them to show."""

    question: EvalQuestion
    groups: tuple[frozenset[str], ...]
    right: tuple[MemoryItem, ...]
    unknown: int


async def _resolved(store: Store, question: EvalQuestion) -> _Target:
    found = [[item] for item in await store.get_many(question.ids, metadata=question.metadata)]
    for text in question.texts:
        query = text.strip()
        holding = await store.search(
            query=query, metadata=question.metadata, mode="substring", archived=None, limit=EVERYTHING
        )
        same = [item for item in holding if item.content.strip() == query]
        if holding:
            found.append(same or holding)
    return _Target(
        question,
        tuple(frozenset(item.id for item in group) for group in found),
        tuple(group[0] for group in found),
        len(question.ids) + len(question.texts) - len(found),
    )


async def _scored(
    store: Store, targets: Sequence[_Target], mode: Mode, embedder: str, limit: int, advance: Callable[[int], None]
) -> Score:
    outcomes = []
    for target in targets:
        started = time.perf_counter()
        found = await _found(store, target.question, mode, limit)
        seconds = time.perf_counter() - started
        ids = [item.id for item in found]
        ranks = tuple(
            next((rank for rank, item_id in enumerate(ids, 1) if item_id in group), None) for group in target.groups
        )
        right = frozenset().union(*target.groups)
        hits = tuple(item_id in right for item_id in ids)
        outcomes.append(Outcome(target.question, ranks, hits, seconds, target.right, found[0] if found else None))
        advance(1)
    return Score(mode, embedder, tuple(outcomes))


async def _found(store: Store, question: EvalQuestion, mode: Mode, limit: int) -> list[MemoryItem]:
    if mode == "recall":
        return await store.recall(question.question, metadata=question.metadata, limit=limit)
    return await store.search(query=question.question, metadata=question.metadata, mode=mode, limit=limit)


@asynccontextmanager
async def _copy(
    store: Store, targets: Sequence[_Target], embeddings: Embeddings, label: str, progress: Bars
) -> AsyncIterator[Store]:
    scopes = {_copied_scope(target.question.metadata) for target in targets}
    async with SQLiteMemoryStore(embeddings=embeddings) as copy:
        copy.item_types = store.item_types
        for scope in [None] if None in scopes else list(scopes):
            with progress(f"embedding with {label}", await store.count(metadata=scope)) as advance:
                async for batch in _batches(store, scope):
                    await copy.add_many(batch)
                    advance(len(batch))
        yield copy


def _copied_scope(metadata: MemoryMetadata | None) -> MemoryMetadata | None:
    """Return the user of a scope, since overlapping scopes of one user need one copy; without a user, everything."""
    return None if metadata is None or metadata.user_id is None else MemoryMetadata(user_id=metadata.user_id)


async def _batches(store: Store, scope: MemoryMetadata | None) -> AsyncIterator[list[Any]]:
    batch: list[MemoryItem] = []
    async for item in store.scan(metadata=scope, order="added"):
        if item.memory_type != "branch":  # A fork shares items that are copied themselves.
            batch.append(item)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch
