"""How much meaning counts is measured on a scope's own items."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from zlib import crc32

import numpy as np
import pytest

from memoranda_backend.ranking import (
    PRIOR,
    Added,
    Calibration,
    HashingEmbeddings,
    Passage,
    ScopeArrays,
    Weights,
    calibrated,
    pack_vector,
    rank,
)

TOPICS = (
    "violin concert orchestra bow string rehearsal",
    "garden tomato seed compost rain bean",
    "train ticket platform delay station luggage",
    "recipe saffron lemon oven dough butter",
)
DIMENSION = 64
Embed = Callable[[str], Sequence[float]]
HASHING = HashingEmbeddings(DIMENSION).embed


def noise(text: str) -> list[float]:
    values: list[float] = np.random.default_rng(crc32(text.encode())).normal(size=DIMENSION).tolist()
    return values


def talk(count: int) -> list[Passage]:
    """Return turns of which ten in a row are about one thing."""
    chance = random.Random(3)
    texts = [" ".join(chance.sample(TOPICS[number // 10 % 4].split(), 4)) + f" n{number}" for number in range(count)]
    return [
        Passage(f"i{number}", text, date=f"2024-03-01T10:{number // 60:02}:{number % 60:02}.000000+00:00", session="s")
        for number, text in enumerate(texts)
    ]


def arrays_of(passages: Sequence[Passage], embed: Embed = HASHING) -> ScopeArrays:
    arrays = ScopeArrays(60, DIMENSION)
    arrays.add([Added(n, each, pack_vector(embed(each.text), DIMENSION)) for n, each in enumerate(passages)])
    return arrays


def test_vectors_that_tell_nothing_do_not_count() -> None:
    assert calibrated(arrays_of(talk(200), noise)).semantic == 0
    assert calibrated(arrays_of(talk(200))).known == 1


def test_a_ranking_with_noise_is_that_by_words() -> None:
    arrays = arrays_of(talk(200), noise)
    near = arrays.similarities(noise("violin bow"), 0.15)
    by_both = rank(arrays, "violin bow n7", Weights(), near=near, limit=20)
    by_words = rank(arrays, "violin bow n7", Weights(), limit=20)
    assert [found.key for found in by_both] == [found.key for found in by_words]


@pytest.mark.parametrize("passages", [[], talk(1), talk(5), [Passage("a", ""), Passage("b", "tea")]])
def test_a_scope_of_a_few_items_has_the_usual_shares(passages: list[Passage]) -> None:
    assert calibrated(arrays_of(passages)) == PRIOR


def test_a_given_share_is_kept() -> None:
    arrays = arrays_of(talk(200), noise)
    near = arrays.similarities(noise("violin bow"), 0.15)
    found = rank(arrays, "violin bow", Weights(semantic=0.5), near=near, limit=200)
    assert any("semantic" in each.parts for each in found)
    assert arrays.measured is None


def test_it_does_not_depend_on_the_order_of_indexing() -> None:
    passages = talk(200)
    other = ScopeArrays(60, DIMENSION)
    for number, each in reversed(list(enumerate(passages))):
        other.add([Added(number, each, pack_vector(HASHING(each.text), DIMENSION))])
    assert calibrated(other) == pytest.approx(calibrated(arrays_of(passages)))


def test_it_is_kept_until_the_items_that_it_was_measured_on_change(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = arrays_of(talk(200))
    measured = calibrated(arrays)
    monkeypatch.setattr("memoranda_backend.ranking.fusion._measured", lambda *_: Calibration(0.0, 0.0))
    arrays.add([Added(900, talk(201)[-1], pack_vector(noise("x"), DIMENSION))])
    assert calibrated(arrays) == measured
    arrays.remove([3])
    assert calibrated(arrays) == Calibration(0.0, 0.0)


def test_without_vectors_the_usual_shares_hold() -> None:
    arrays = ScopeArrays(60)
    arrays.add([Added(number, each) for number, each in enumerate(talk(100))])
    assert calibrated(arrays) == PRIOR
