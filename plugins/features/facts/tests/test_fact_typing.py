"""The extractor by rules, whichever alphabet a name has and however a sentence was typed."""

from __future__ import annotations

import unicodedata
from dataclasses import replace

import pytest

import memoranda
from memoranda import HumanMemory
from memoranda_facts.extraction.proposing import Said
from memoranda_facts.extraction.rules import candidates

SAID = Said("", "Ada", "2026-05-20T10:00:00+00:00", "item")


def facts_in(text: str) -> set[str]:
    """Return what Ada's words say, in short."""
    return {f"{each.predicate}: {each.object}" for each in candidates(replace(SAID, text=text)) if each.kind == "set"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I moved to Łódź.", "lives_in: Łódź"),
        ("I live in Česká Lípa now.", "lives_in: Česká Lípa"),
        ("I moved from Lisbon to İzmir.", "lives_in: İzmir"),
        ("I moved to Đà Nẵng.", "lives_in: Đà Nẵng"),
        ("I moved to Αθήνα.", "lives_in: Αθήνα"),
        ("I moved to Москва.", "lives_in: Москва"),
        ("Ich wohne jetzt in Łódź.", "lives_in: Łódź"),
        ("Vivo ahora en Łódź.", "lives_in: Łódź"),
        ("J'habite maintenant à Łódź.", "lives_in: Łódź"),
        ("My name is Michał.", "name: Michał"),
        ("My name is Żaneta Ćwik.", "name: Żaneta Ćwik"),
        ("I work at Škoda.", "employer: Škoda"),
    ],
)
def test_a_name_may_have_letters_of_any_european_alphabet(text: str, expected: str) -> None:
    assert expected in facts_in(text)


def test_others_are_named_in_any_alphabet_too() -> None:
    found = candidates(replace(SAID, text="Łukasz lives in Gdańsk."))

    assert [(each.subject, each.predicate, each.object) for each in found] == [("Łukasz", "lives_in", "Gdańsk")]


@pytest.mark.parametrize(
    "text",
    [
        unicodedata.normalize("NFD", "I moved to Zürich."),
        "I moved to \u2068Zürich\u2069.",
        "I moved to \u200bZürich.",
        "I moved\u202fto\u00a0Zürich.",
        "I mo\u00adved to Zürich.",
        "\ufeffI moved to Zürich.",
    ],
    ids=["decomposed", "isolated", "zero-width", "unusual spaces", "soft hyphen", "byte order mark"],
)
def test_what_nobody_sees_hides_no_change(text: str) -> None:
    (found,) = candidates(replace(SAID, text=text))

    assert (found.predicate, found.object) == ("lives_in", "Zürich")
    (source,) = found.sources
    assert source.start is not None
    assert source.end is not None
    assert unicodedata.normalize("NFC", text[source.start : source.end]).strip("\ufeff").startswith("I")
    assert text[source.end :] in (".", "\u2069.")


def test_a_mark_that_is_typed_unusually_is_still_one_of_a_quotation() -> None:
    assert not facts_in("Bob wrote:\u2028I moved to Łódź.")
    assert not facts_in("Here is what Bob\u200b wrote: I moved to Łódź.")


@pytest.mark.parametrize("text", ["I moved house to Porto.", "I now reside in Porto.", "I reside in Porto now."])
def test_other_words_for_a_move(text: str) -> None:
    assert facts_in(text) == {"lives_in: Porto"}


@pytest.mark.parametrize("url", ["memory://", "sqlite:///{folder}/a.db"])
@pytest.mark.parametrize("text", ["I moved from Lisbon to Łódź.", "I moved to \u2066Porto\u2069."])
async def test_no_home_is_asserted_that_was_left(url: str, text: str, tmp_path: object) -> None:
    async with memoranda.open(url.format(folder=tmp_path), facts="rules") as store:
        handle = store.scoped(user_id="ada", session_id="s")
        await handle.add(HumanMemory(content="I live in Lisbon.", created_at="2026-01-01"))
        await handle.add(HumanMemory(content=text, created_at="2026-01-02"))

        (line,) = await handle.known(tokens=500)

        assert "before: Lisbon" in line
