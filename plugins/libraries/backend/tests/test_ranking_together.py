"""Several scopes in one pass: each has the scores that it has alone, in whatever language, with vectors or without."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory
from memoranda.store import RankedItem, Ranker
from memoranda.store.ranked import Entry, ScopeToRank, best_of_all
from memoranda_backend.ranking import (
    Added,
    Passage,
    RankedScope,
    ScopeArrays,
    TextRanker,
    Weights,
    pack_vector,
    rank,
    rank_together,
)

DIMENSION = 4
SAID = (
    "Thanks, Ada!",
    "Ada planted tomatoes in May 2023.",
    "What did she plant?",
    "I am allergic to walnuts, please remember that from now on.",
    "Die Wanderung beginnt am Bahnhof, und der Zug fährt um neun.",
    "Wo beginnt die Wanderung?",
    "我对花生过敏。",
    "the tomatoes were eaten by snails " * 12,
    "",
)
ASKED = ("tomatoes", "What did Ada plant in May?", "Wo beginnt die Wanderung am Bahnhof?", "花生", "walnuts snails", "")


@st.composite
def scopes(draw: st.DrawFn) -> list[RankedScope]:
    with_vectors = draw(st.booleans())
    chance = random.Random(draw(st.integers(0, 10_000)))
    return [scope(chance, draw(st.integers(0, 40)), with_vectors) for _ in range(draw(st.integers(1, 4)))]


def scope(chance: random.Random, size: int, with_vectors: bool) -> RankedScope:
    arrays = ScopeArrays(Weights().passage, DIMENSION if with_vectors else 0)
    arrays.add([Added(number, said(chance, number), vector(chance, with_vectors)) for number in range(size)])
    arrays.remove(chance.sample(range(size), size // 5))
    count = len(arrays)
    near = np.array([round(chance.uniform(-1, 1), 6) for _ in range(count)]) if with_vectors and count else None
    wanted = np.array([chance.random() < 0.8 for _ in range(count)], np.bool_)
    return RankedScope(arrays, near, chance.choice([None, wanted]), 0.1)


def said(chance: random.Random, number: int) -> Passage:
    hour = f"2023-05-{1 + number // 8:02}T10:{number % 60:02}:00+00:00"
    speaker = chance.choice(("user", "assistant", "Ada"))
    return Passage(str(number), chance.choice(SAID), speaker, hour, str(number // 16))


def vector(chance: random.Random, with_vectors: bool) -> bytes:
    if not with_vectors or chance.random() < 0.1:
        return b""
    return pack_vector([chance.uniform(-1, 1) for _ in range(DIMENSION)], DIMENSION)


@given(scopes(), st.sampled_from(ASKED), st.sampled_from((1, 3, 50)))
def test_scopes_ranked_together_have_the_scores_that_they_have_alone(
    every: list[RankedScope], query: str, limit: int
) -> None:
    alone = [
        (number, found)
        for number, one in enumerate(every)
        for found in rank(
            one.arrays, query, Weights(), near=one.near, wanted=one.wanted, limit=limit, unrelated=one.unrelated
        )
    ]
    together = rank_together(every, query, Weights(), limit)

    best = sorted(alone, key=lambda each: (-each[1].score, each[0]))[:limit]
    assert [(number, found.item) for number, found in together] == [(number, found.item) for number, found in best]
    for (_, found), (_, expected) in zip(together, best, strict=True):
        assert found.score == pytest.approx(expected.score, abs=1e-9)
        assert found.parts == pytest.approx(expected.parts, abs=1e-9)
        assert found.share == pytest.approx(expected.share, abs=1e-9)
        same = ("key", "terms", "part", "by_meaning")
        assert [getattr(found, name) for name in same] == [getattr(expected, name) for name in same]
    if len({number for number, _ in alone}) > 1:
        assert {found.evidence for _, found in together} == {max(found.evidence for _, found in alone)}


def test_a_ranker_ranks_the_scopes_of_a_store_together() -> None:
    ranker = TextRanker()
    texts = (["Ada eats cake", "no bread"], ["cake and bread, cake"], [])
    every = [to_rank(ranker, contents) for contents in texts]

    found = ranker.rank_together("cake with butter", every, 5)

    assert found == best_of_all([each.ranked("cake with butter", 5) for each in every], 5)
    assert {each.item.content for each in found} == {"Ada eats cake", "no bread", "cake and bread, cake"}
    assert {each.missing for each in found} == {("butter",)}


def test_an_index_of_another_ranker_is_asked_by_itself() -> None:
    class Newest:
        def rank(self, query: str, entries: Sequence[Entry], **asked: object) -> list[RankedItem]:
            return [RankedItem(entries[-1].item, 2.0)]

    scope = to_rank(TextRanker(), ["cake"])
    found = TextRanker.rank_together("cake", [replace(scope, index=Newest()), scope], 5)

    assert [each.score for each in found] == [2.0, pytest.approx(1.0, abs=0.5)]


def to_rank(ranker: Ranker, contents: Sequence[str]) -> ScopeToRank:
    items = [HumanMemory(content=content) for content in contents]
    entries = [Entry(item.created_at, number, item, []) for number, item in enumerate(items)]
    return ScopeToRank(ranker.index(), entries, lambda item: True, None)
