"""What people type without accents and apostrophes, with emojis and laughs, is read like what they mean."""

from __future__ import annotations

import time

import pytest

from memoranda_facts.extraction.proposing import Said
from memoranda_facts.extraction.rules import candidates
from memoranda_facts.extraction.spelling import readable


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("jhabite a lille", "j'habite à lille"),
        ("jai ete vire de decathlon", "j'ai été viré de decathlon"),
        ("mi hija", "mi hija"),
        ("je quitte lille", "je quitte lille"),
        ("deje el yoga", "dejé el yoga"),
        ("I dont smoke", "I don't smoke"),
        ("Moved to York 🎉🎉", "Moved to York,"),
        ("Moved to York! 🎉 Great", "Moved to York!  Great"),
        ("moved to york lol", "moved to york,"),
        ("haha me mude a cali jajaja", ", me mudé a cali,"),
    ],
)
def test_words_are_spelled_as_they_are_meant(typed: str, meant: str) -> None:
    assert readable(typed)[0].rstrip() == meant


def test_a_source_says_where_the_words_stand_in_what_was_typed() -> None:
    text = "😀 coucou, jsuis allergique aux noix 🥜 et jhabite a Lille"
    found = candidates(Said(text, "somebody", "2026-01-10T09:00:00+00:00", "item"))
    spoken = {each.predicate: text[each.sources[0].start : each.sources[0].end] for each in found}
    assert spoken == {"allergic_to": "jsuis allergique aux noix", "lives_in": "jhabite a Lille"}


@pytest.mark.parametrize("shape", ["\t", " ", "\n", "\t\n", " .", "– ", "seit ", "ich habe jetzt ", "con mi ", "Ada "])
def test_the_time_of_reading_grows_with_the_text_and_not_with_its_square(shape: str) -> None:
    """A pattern that tries each run of blanks from each of its places would take a hundred times as long."""

    def seconds(size: int) -> float:
        said = Said((shape * size)[:size], "somebody", "2026-01-10T09:00:00+00:00", "item")
        started = time.thread_time()
        candidates(said)
        return time.thread_time() - started

    seconds(2_000)
    assert seconds(40_000) <= 40 * max(seconds(4_000), 0.001)
