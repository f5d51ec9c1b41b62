"""Exact words are always found, whatever language an item or a query is taken for."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest

from memoranda_backend.ranking import Added, Passage, ScopeArrays, Weights, is_unspaced, rank

SENTENCES = [
    line.split(" | ") for line in (Path(__file__).parent / "sentences.txt").read_text(encoding="utf-8").splitlines()
]
_PIECE = re.compile(r"[^\s.,:;!?(){}\[\]<>=*&|~+/'\"-]+")


def words_of(text: str) -> list[str]:
    """Return the words of a text; where there are no spaces between words, each pair of its letters."""
    pieces = _PIECE.findall(text)
    return [
        word
        for piece in pieces
        for word in (["".join(pair) for pair in pairwise(piece)] if is_unspaced(piece) else [piece])
    ]


def found_by(word: str, arrays: ScopeArrays) -> dict[str, float]:
    """Return the scores of the items that have a word themselves."""
    return {found.key: found.score for found in rank(arrays, word, Weights()) if found.terms}


def scope_of(texts: list[str]) -> ScopeArrays:
    """Return texts as items that have nothing to do with each other."""
    arrays = ScopeArrays(Weights().passage)
    arrays.add([Added(number, Passage(text, text, session=text)) for number, text in enumerate(texts)])
    return arrays


@pytest.mark.parametrize(("language", "text"), SENTENCES)
def test_every_word_finds_its_item_where_it_is_the_only_one(language: str, text: str) -> None:
    arrays = scope_of([text])
    scores = {word: found_by(word, arrays).get(text, 0.0) for word in words_of(text)}
    assert min(scores.values()) > 0.9, scores


def test_every_word_finds_its_item_among_those_of_thirty_languages() -> None:
    assert len({language for language, _ in SENTENCES}) >= 30
    arrays = scope_of([text for _, text in SENTENCES])
    missed = [word for _, text in SENTENCES for word in words_of(text) if text not in found_by(word, arrays)]
    assert not missed


@pytest.mark.parametrize(("language", "text"), SENTENCES)
def test_every_word_finds_its_item_in_a_conversation_of_another_language(language: str, text: str) -> None:
    """The language of the conversation is not that of the item, and the query is a word alone."""
    german = ["Wir haben das gestern schon besprochen", "Und was hat er dann zu dir gesagt?", "Das weiß ich nicht mehr"]
    arrays = scope_of([*german, text])
    assert arrays.language == "german"
    missed = [word for word in words_of(text) if text not in found_by(word, arrays)]
    assert not missed
