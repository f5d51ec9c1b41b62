"""Questions that are made from a store's own words."""

from __future__ import annotations

import pytest

from memoranda import AIMemory, HumanMemory, MemoryMetadata, SystemMemory
from memoranda.errors import InputError
from memoranda.store import InMemoryStore, Store
from memoranda_backend.ranking import query_terms
from memoranda_cli.evaluation import evaluate, make_questions

ADA = MemoryMetadata(user_id="ada")


async def test_the_same_seed_makes_the_same_questions(store: Store) -> None:
    first, again = await make_questions(store, 3, seed=7), await make_questions(store, 3, seed=7)

    assert first == again
    assert await make_questions(store, 3, seed=8) != first


async def test_a_question_lacks_the_rarest_words_of_its_item(store: Store) -> None:
    (question,) = [made for made in await make_questions(store, metadata=ADA) if made.ids == ("seat",)]

    own = set(query_terms("I always book a window seat on the train."))
    asked = set(query_terms(question.question))
    assert 3 <= len(asked & own) < len(own)
    assert "on" not in question.question.split()
    assert question.metadata == ADA


async def test_what_was_made_can_be_evaluated(store: Store) -> None:
    made = await make_questions(store)

    report = await evaluate(store, made, modes=["text"])

    assert report.questions == len(made) == 4
    assert report.unknown == ()
    assert report.scores[0].recall(10) == 1


async def test_items_that_cannot_be_asked_for_are_left_out() -> None:
    long = "The red kettle whistles while grandmother bakes apple pancakes."
    async with InMemoryStore() as store:
        await store.add_many(
            [
                SystemMemory(content="Always answer politely with short precise friendly sentences."),
                HumanMemory(content="Where did grandmother put the large copper kettle yesterday evening?"),
                AIMemory(content="Yes."),
                HumanMemory(content="Pancakes taste better with plum jam and cinnamon sugar."),
                HumanMemory(content="Pancakes taste better with plum jam and cinnamon sugar."),
                HumanMemory(id="right", content=long),
            ]
        )

        assert [question.ids for question in await make_questions(store)] == [("right",)]


async def test_a_store_without_suited_items_is_refused() -> None:
    async with InMemoryStore() as store:
        await store.add(HumanMemory(content="Hello."))

        with pytest.raises(InputError, match="None of the 1 items is suited"):
            await make_questions(store)


async def test_scripts_without_spaces_are_made_into_questions() -> None:
    async with InMemoryStore() as store:
        await store.add(HumanMemory(id="zh", content="我昨天在北京买了一辆红色的自行车"))

        (question,) = await make_questions(store)

    assert len(question.question.split()) == 3
