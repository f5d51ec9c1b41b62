"""What people type without capitals is read like what they type with them, and no word becomes a name by it."""

from __future__ import annotations

import pytest

from memoranda_facts.extraction.capitals import with_capitals
from memoranda_facts.extraction.proposing import Said
from memoranda_facts.extraction.rules import candidates


def facts_in(text: str) -> set[str]:
    """Return what a text sets of its speaker."""
    said = Said(text, "somebody", "2026-01-10T09:00:00+00:00", "item")
    return {f"{each.predicate}: {each.object}" for each in candidates(said) if each.subject == "somebody"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("hey so i live in austin and work at dell", {"lives_in: Austin", "employer: Dell"}),
        ("im a nurse at mercy, based in leeds", {"job: nurse", "employer: Mercy", "lives_in: Leeds"}),
        ("my girlfriends name is anna", {"girlfriend: Anna"}),
        ("i have a dog called biscuit", {"pet: Biscuit"}),
        ("we have two kids, mia and leo", {"child: Mia", "child: Leo", "has: two kids"}),
        ("i drive a honda civic", {"drives: Honda Civic"}),
        ("ive got asthma and eczema", {"condition: asthma", "condition: eczema"}),
        ("i speak english and a bit of spanish", {"speaks: English", "speaks: Spanish"}),
        ("keep your answers short pls", {"answer_style: answers short"}),
        ("u can call me bex", {"nickname: Bex"}),
        ("im 34, birthday is march 3rd", {"age: 34", "birthday: 03-03"}),
        ("hi ich wohn in köln und arbeite bei rewe", {"lives_in: Köln", "employer: Rewe"}),
        ("bin allergisch gegen nüsse und meine frau heißt petra", {"allergic_to: Nüsse", "wife: Petra"}),
        ("ich spiel fußball im verein", {"plays: Fußball"}),
        ("i play tennis and chess", {"plays: tennis", "plays: chess"}),
        ("bin vegetarierin und allergisch gegen soja", {"diet: Vegetarierin", "allergic_to: Soja"}),
        ("I take insulin.", {"takes: insulin"}),
        ("hab ne katze namens mimi", {"pet: Mimi"}),
        ("j'ai une fille qui s'appelle emma", {"daughter: Emma"}),
        ("hola vivo en sevilla y trabajo en zara", {"lives_in: Sevilla", "employer: Zara"}),
        ("tenemos dos hijos, lucas y sara", {"child: Lucas", "child: Sara"}),
        ("salut j'habite à nantes et je bosse chez airbus", {"lives_in: Nantes", "employer: Airbus"}),
        ("j'ai une peugeot 208", {"drives: Peugeot 208"}),
    ],
)
def test_a_chat_without_capitals_is_read(text: str, expected: set[str]) -> None:
    assert facts_in(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "i work for free",
        "i work at night",
        "i live in fear",
        "my boss is angry",
        "my name is a joke",
        "everyone calls me weird",
        "call me later",
        "im at starbucks now",
        "i wish i lived in paris",
        "my character is called bob and he lives in vienna",
        "mein chef ist krank",
        "ich bin bei dir",
        "quiero vivir en madrid",
        "mi novia es alta",
        "je travaille chez moi",
        "mon chef est malade",
        "je fume plus que toi",
        "we bought a flat in paris for my mom",
    ],
)
def test_no_word_becomes_a_name(text: str) -> None:
    assert facts_in(text) == set()


def test_a_text_with_capitals_of_its_own_gets_only_those_of_places() -> None:
    assert with_capitals("Hello, i live in berlin and work at dell") == "Hello, i live in Berlin and work at dell"
