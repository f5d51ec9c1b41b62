"""The figures of an evaluation, against figures computed by hand."""

from __future__ import annotations

import pytest
from stepwise import StepwiseStore

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import InputError, UnsupportedError
from memoranda.store import RankedItem, Store
from memoranda_backend.ranking import HashingEmbeddings
from memoranda_cli.evaluation import EvalQuestion, evaluate

ADA = MemoryMetadata(user_id="ada")


class Scripted(StepwiseStore):
    """A store whose ranking is written down: the ids of the results by query."""

    answers: dict[str, list[str]]

    async def _rank(self, query, wanted, limit, mode):  # type: ignore[no-untyped-def]  # the store's own signature
        found = {item.id: item for item in await self.get_many(self.answers[query])}
        return [RankedItem(found[each], 1.0) for each in self.answers[query]][:limit]


async def scripted(answers: dict[str, list[str]]) -> Scripted:
    store = Scripted()
    await store.init()
    await store.add_many([HumanMemory(id=letter, content=f"item {letter}") for letter in "abcdef"])
    store.answers = answers
    return store


async def test_recall_precision_and_mrr_are_those_computed_by_hand() -> None:
    store = await scripted({"first": ["a", "b", "c"], "second": ["d", "e", "a", "f"], "third": ["f"]})
    asked = [
        EvalQuestion("first", ("a",)),
        EvalQuestion("second", ("a", "e", "b")),
        EvalQuestion("third", ("c",)),
    ]

    (score,) = (await evaluate(store, asked, modes=["text"], k=(1, 2, 3))).scores

    assert score.recall(1) == pytest.approx((1 + 0 + 0) / 3)
    assert score.recall(2) == pytest.approx((1 + 1 / 3 + 0) / 3)
    assert score.recall(3) == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert score.precision(1) == pytest.approx(1 / 3)
    assert score.precision(3) == pytest.approx((1 / 3 + 2 / 3 + 0) / 3)
    assert score.mrr == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert score.results == pytest.approx((3 + 3 + 1) / 3)
    assert [outcome.ranks for outcome in score.outcomes] == [(1,), (3, 2, None), (None,)]
    assert [outcome.question.question for outcome in score.misses(2)] == ["second", "third"]


async def test_a_search_that_returns_nothing_has_no_precision() -> None:
    store = await scripted({"silence": []})

    (score,) = (await evaluate(store, [EvalQuestion("silence", ("a",))], modes=["text"])).scores

    assert (score.recall(20), score.precision(10), score.mrr, score.results) == (0, 0, 0, 0)
    assert score.outcomes[0].first is None


async def test_every_mode_of_a_store_is_asked_within_the_scope(store: Store) -> None:
    report = await evaluate(store, [EvalQuestion("Who likes a window seat?", ("seat",), metadata=ADA)])

    assert [score.mode for score in report.scores] == [
        mode for mode in ("text", "semantic", "hybrid", "recall") if mode in (*store.capabilities, "recall")
    ]
    assert report.scores[0].recall(1) == 1
    assert all(outcome.first is None or outcome.first.id != "bob" for s in report.scores for outcome in s.outcomes)


async def test_a_text_stands_for_the_item_that_says_it_or_contains_it(store: Store) -> None:
    asked = [
        EvalQuestion("window seat", texts=("I always book a window seat on the train.",), metadata=ADA),
        EvalQuestion("dog", texts=("called biscuit",), metadata=ADA),
    ]

    outcomes = (await evaluate(store, asked, modes=["text"])).scores[0].outcomes

    assert [[item.id for item in outcome.right] for outcome in outcomes] == [["seat"], ["dog"]]
    assert [outcome.ranks for outcome in outcomes] == [(1,), (1,)]


async def test_recall_is_measured_with_its_floor_and_finds_what_was_archived(store: Store) -> None:
    await store.add(HumanMemory(id="boat", content="Sails of the boat are torn.", metadata=ADA, archived_by="summary"))
    asked = [EvalQuestion("Who has torn sails on the boat?", texts=("sails of the boat",), metadata=ADA)]

    text, recall = (await evaluate(store, asked, modes=["text", "recall"])).scores

    assert (text.recall(10), recall.recall(10)) == (0, 1)
    assert recall.precision(10) == 1


async def test_any_of_several_items_with_the_same_text_will_do() -> None:
    store = await scripted({"same": ["f", "b"]})
    await store.add(HumanMemory(id="f", content="item b"))

    (score,) = (await evaluate(store, [EvalQuestion("same", texts=("item b",))], modes=["text"])).scores

    assert score.recall(1) == 1
    assert score.precision(2) == 1


async def test_questions_about_what_is_not_stored_are_listed_and_not_scored(store: Store) -> None:
    asked = [
        EvalQuestion("window seat", ("seat", "gone"), metadata=ADA, line=1),
        EvalQuestion("window seat", ("bob",), metadata=ADA, line=2),
        EvalQuestion("window seat", texts=("no such thing",), metadata=ADA, line=3),
    ]

    report = await evaluate(store, asked, modes=["text"])

    assert report.questions == 1
    assert [question.line for question in report.unknown] == [2, 3]
    assert [question.line for question in report.partly_unknown] == [1]
    assert report.scores[0].recall(1) == 1


async def test_an_embedder_is_measured_on_a_copy_and_the_store_stays_as_it_is(store: Store) -> None:
    before = [item async for item in store.scan()]
    asked = [EvalQuestion("My dog is called Biscuit and sleeps on the sofa", ("dog",), metadata=ADA)]

    report = await evaluate(store, asked, embedders=["hashing", HashingEmbeddings(64)])

    copies = [(score.mode, score.embedder) for score in report.scores if score.embedder]
    other = HashingEmbeddings(64).identity()
    assert copies == [(mode, name) for name in ("hashing", other) for mode in ("semantic", "hybrid", "recall")]
    assert all(score.recall(1) == 1 for score in report.scores)
    assert [item async for item in store.scan()] == before


async def test_what_no_store_can_be_asked_is_refused(store: Store) -> None:
    asked = [EvalQuestion("window seat", ("seat",), metadata=ADA)]

    with pytest.raises(InputError, match="None of the right items of the 1 questions"):
        await evaluate(store, [EvalQuestion("?", ("gone",))])
    with pytest.raises(InputError, match="There is no mode 'literal'"):
        await evaluate(store, asked, modes=["literal"])  # type: ignore[list-item]  # on purpose
    with pytest.raises(InputError, match="at least 1"):
        await evaluate(store, asked, k=(0, 5))


async def test_a_mode_that_needs_an_embedder_asks_for_one() -> None:
    store = await scripted({})

    with pytest.raises(UnsupportedError, match=r"semantic search\. Name an embedder"):
        await evaluate(store, [EvalQuestion("a", ("a",))], modes=["semantic"])
