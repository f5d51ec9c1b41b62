"""What a scope knows about a question, and the words of the question that nothing supports."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from memoranda.items import HumanMemory, MemoryMetadata
from memoranda.store import RankedItem, Store
from memoranda.store.in_memory import InMemoryStore
from memoranda_backend.ranking import judge

SAID = (
    ("Ada", "I adopted a puppy last week, he is called Biscuit."),
    ("Ben", "How lovely! I went sailing with my uncle Tom on the lake."),
    ("Ada", "I am painting the kitchen in a warm yellow."),
    ("Ben", "My violin lessons start in March, I am nervous already."),
    ("Ada", "We took the night train to Vienna with my sister."),
    ("Ben", "The bakery at the corner makes wonderful rye bread."),
)


@pytest.fixture
async def told() -> AsyncIterator[Store]:
    async with InMemoryStore() as store:
        for number, (name, text) in enumerate(SAID):
            metadata = MemoryMetadata(user_id="talk", session_id="s")
            at = f"2024-02-{number + 1:02}T10:00:00+00:00"
            await store.add(HumanMemory(content=text, name=name, created_at=at, metadata=metadata))
        yield store.scoped(user_id="talk")


@pytest.mark.parametrize("question", ["Which puppy did Ada adopt?", "When do Ben's violin lessons start?"])
async def test_what_was_said_is_known(told: Store, question: str) -> None:
    found = await told.recall(question, verdict=True)
    assert (found.verdict, found.unsupported) == ("known", ())
    assert found.memories


@pytest.mark.parametrize(
    ("question", "word"),
    [
        ("When do Ben's trumpet lessons start?", "trumpet"),
        ("Did Ada take the night train to Lisbon?", "Lisbon"),
        ("Which puppy did Gwendolyn adopt?", "Gwendolyn"),
    ],
)
async def test_a_word_that_nobody_said_is_named_as_it_is_written(told: Store, question: str, word: str) -> None:
    found = await told.recall(question, verdict=True)
    assert (found.verdict, found.unsupported) == ("near", (word,))
    assert found.memories


async def test_a_person_is_named_if_it_was_another_one(told: Store) -> None:
    found = await told.recall("What is the puppy called that Ben adopted?", verdict=True)
    assert (found.verdict, found.unsupported) == ("near", ("Ben",))


@pytest.mark.parametrize("question", ["What is the boiling point of ethanol?", "Who wrote the Epic of Gilgamesh?"])
async def test_a_question_about_something_else_is_unknown(told: Store, question: str) -> None:
    found = await told.recall(question, verdict=True)
    assert (found.memories, found.verdict) == ((), "unknown")
    assert await told.recall(question) == []


async def test_a_floor_of_zero_recalls_what_is_related_to_an_unknown_question(told: Store) -> None:
    question = "Which general of the Roman legions founded the fortified camp of Vienna and its aqueducts?"
    found = await told.recall(question, min_score=0, verdict=True)
    assert found.verdict == "unknown"
    assert "Vienna" in found.memories[0].item.content


async def test_one_telling_word_is_enough_among_a_few_items(told: Store) -> None:
    found = await told.recall("How long was the journey to Vienna?", verdict=True)
    assert found.verdict == "near"
    assert "Vienna" in found.memories[0].item.content


async def test_times_are_not_missed(told: Store) -> None:
    found = await told.recall("Which kitchen did Ada paint yesterday, in December 2023?", verdict=True)
    assert found.unsupported == ()


@pytest.mark.parametrize(("score", "verdict"), [(0.5, "known"), (0.1, "unknown")])
def test_results_of_another_ranking_are_judged_by_their_scores(score: float, verdict: str) -> None:
    assert judge("Is there tea?", [RankedItem(HumanMemory(content="There is tea."), score)]) == (verdict, ())


@pytest.mark.parametrize(
    ("question", "verdict"),
    [
        ("Who makes bread in a bakery by the danube?", "near"),
        ("Who makes bread in a bakery by the Danube?", "unknown"),
        ("Who Makes Bread In A Bakery By The Danube?", "near"),
        ("Wer macht das Brot in der kleinen Danube?", "near"),
    ],
)
def test_an_english_question_with_a_name_that_nobody_said_needs_more_evidence(question: str, verdict: str) -> None:
    """A capital is no name where every word has one, nor in languages that write nouns with one."""
    item = HumanMemory(content="The bakery at the corner makes wonderful rye bread.")
    ranked = [RankedItem(item, 0.3, {"text": 0.3}, evidence=0.36, missing=("danube",))]
    assert judge(question, ranked)[0] == verdict


@pytest.mark.parametrize(
    ("missing", "verdict"), [((), "known"), (("cricket",), "unknown"), (("stadium", "cricket"), "unknown")]
)
def test_a_question_most_of_which_nobody_said_needs_more_evidence(missing: tuple[str, ...], verdict: str) -> None:
    item = HumanMemory(content="The rules of the linter are strict.")
    ranked = [RankedItem(item, 0.4, {"text": 0.4}, terms=("rule",), evidence=0.44, missing=missing)]
    assert judge("What are the rules of cricket?", ranked)[0] == verdict


def test_one_word_of_many_that_nobody_said_needs_no_more_evidence() -> None:
    item = HumanMemory(content="The rules of the linter are strict since March.")
    ranked = [RankedItem(item, 0.4, {"text": 0.4}, terms=("rule", "linter"), evidence=0.44, missing=("cricket",))]
    assert judge("Which rules of the linter are like cricket?", ranked)[0] == "near"


@pytest.mark.parametrize("question", ["Which telescope did I buy in Peru?", "How do I sharpen a chainsaw?"])
async def test_what_was_told_or_how_it_is_done_needs_the_usual_evidence(told: Store, question: str) -> None:
    assert (await told.recall(question, verdict=True)).verdict == "unknown"


def test_advice_needs_no_evidence_at_all() -> None:
    """What the embedder found is returned, although no word of it was asked for."""
    item = HumanMemory(content="I prefer small guesthouses")
    ranked = [RankedItem(item, 0.1, {"semantic": 0.1}, evidence=0.0, missing=("stay", "kyoto"))]
    assert judge("Where should I stay in Kyoto?", ranked)[0] == "near"
    assert judge("Where is the tower of Kyoto?", ranked)[0] == "unknown"


@pytest.mark.parametrize(
    ("told", "question", "unsupported"),
    [
        ("Mi hermana Lucía vive en Valencia", "¿Cuántos hijos tiene Lucía?", ("hijos",)),
        ("Meine Schwester Lucia wohnt in Köln", "Kann meine Schwester Lucia tanzen?", ("tanzen",)),
        ("Ma sœur Lucie habite à Lyon", "Que veut ma sœur Lucie ?", ()),
        ("Mia sorella Lucia vive a Torino", "Cosa fa mia sorella Lucia?", ()),
        ("Moja siostra Zofia mieszka w Krakowie", "Gdzie jest moja siostra Zofia?", ()),
        ("My sister Lucy lives in Leeds", "How many cats does my sister Lucy have?", ("cats",)),
    ],
)
async def test_verbs_that_only_help_are_never_reported_as_unsupported(
    told: str, question: str, unsupported: tuple[str, ...]
) -> None:
    async with InMemoryStore() as store:
        await store.scoped(user_id="ada").add(HumanMemory(content=told))
        found = await store.scoped(user_id="ada").recall(question, verdict=True, min_score=0)

    assert found.unsupported == unsupported
