"""The text ranking and the hybrid ranking that every backend shares."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda.errors import InputError
from memoranda_backend.ranking import (
    Passage,
    Scored,
    Weights,
    index_words,
    passage_at,
    query_dates,
    query_without_names,
    rank_hybrid,
    rank_text,
    speaker_of,
    taking_part,
)
from memoranda_backend.ranking.fusion import semantic_share
from memoranda_backend.ranking.names import asked_person, called_names

BARE = Weights(before=0, after=0, asked_speaker=0, session=0, time=0, statement=0)


def conversation(*texts: str, speakers: str = "", session: str = "s", date: str = "2023-05-08") -> list[Passage]:
    """One turn a minute, with a letter of ``speakers`` as the name of each."""
    return [
        Passage(
            key=f"{session}{number}",
            text=text,
            speaker=speakers[number] if speakers else "",
            date=f"{date}T10:{number:02d}:00.000000+00:00",
            session=session,
        )
        for number, text in enumerate(texts)
    ]


def keys(ranked: list[Scored]) -> list[str]:
    return [scored.key for scored in ranked]


# Dates


@pytest.mark.parametrize(
    ("query", "dates"),
    [
        ("What happened on 7 May 2023?", ("2023-05-07",)),
        ("What happened on May 7th, 2023?", ("2023-05-07",)),
        ("the 7th of May 2023", ("2023-05-07",)),
        ("in May 2023", ("2023-05",)),
        ("since 2023-05-07", ("2023-05-07",)),
        ("from June 2022 to July 2023", ("2022-06", "2023-07")),
        ("in May", ()),
        ("what may happen", ()),
        ("2 cats", ()),
    ],
)
def test_dates_of_a_query_are_days_or_months_with_their_year(query: str, dates: tuple[str, ...]) -> None:
    assert query_dates(query) == dates


def test_an_item_of_the_asked_month_comes_first() -> None:
    may = conversation("I planted roses", session="a", date="2023-05-08")
    june = conversation("I planted roses", session="b", date="2023-06-08")
    assert keys(rank_text("Which roses were planted in May 2023?", [june, may])) == ["a0", "b0"]


def test_a_number_alone_is_no_day() -> None:
    second = conversation("We have cats", session="a", date="2023-05-02")
    newer = conversation("We have cats", session="b", date="2023-05-20")
    assert keys(rank_text("2 cats", [second, newer])) == ["b0", "a0"]


# Text ranking


def test_a_rare_term_counts_for_more_than_a_common_one() -> None:
    texts = ["the dog barks", "the dog sleeps", "the dog eats", "a violin"]
    assert keys(rank_text("dog violin", [conversation(*texts)], weights=BARE))[0] == "s3"


def test_an_answer_is_found_by_the_words_of_its_question() -> None:
    turns = conversation("Which instrument do you play?", "The violin.", "Nice.", "Lunch?", "Later.", "Bye", "Bye")
    assert keys(rank_text("instrument", [turns]))[:2] == ["s0", "s1"]


def test_without_context_only_own_words_count() -> None:
    turns = conversation("Which instrument do you play?", "The violin.")
    assert keys(rank_text("instrument", [turns], weights=BARE)) == ["s0"]


def far_from_each_other(*, near: bool) -> list[Passage]:
    """Forty turns, of which two have one word of a query each and six have another: near the first two, or apart."""
    texts = ["all is well"] * 40
    for place in (4, 24):
        texts[place] = "a violin"
    for place in (3, 5, 6, 23, 25, 26) if near else (0, 9, 13, 17, 31, 36):
        texts[place] = "some lessons"
    return conversation(*texts)


def test_neighbours_count_less_where_the_words_of_a_query_stand_apart() -> None:
    """In a list of notes, what stands beside what was found has to do with it only by chance."""
    beside = {
        near: {
            found.key: found.parts["text"] for found in rank_text("violin lessons", [far_from_each_other(near=near)])
        }
        for near in (True, False)
    }
    assert beside[False]["s7"] < beside[True]["s7"] / 2


def test_neighbours_always_count_where_no_coherence_is_asked_for() -> None:
    turns = far_from_each_other(near=False)
    usual, always = (
        {found.key: found.parts["text"] for found in rank_text("violin lessons", [turns], weights=weights)}
        for weights in (None, Weights(coherence=0))
    )
    assert usual["s25"] < always["s25"]


@pytest.mark.parametrize(("speakers", "alike"), [("AA", True), ("AB", False)])
def test_what_one_speaker_goes_on_to_say_takes_less_from_it(speakers: str, alike: bool) -> None:
    turns = conversation("The violin is old.", "It stands there.", speakers=speakers)
    unknown = conversation("The violin is old.", "It stands there.")
    known, usual = (rank_text("violin", [talk])[1].parts["text"] for talk in (turns, unknown))
    assert (known < 0.8 * usual) == alike


def test_own_words_are_worth_a_part_of_the_best_whatever_stands_around() -> None:
    """An item that has the words itself is not displaced by many that stand between such."""
    crowd = conversation(*["a violin and a piano"] * 6, session="crowd")
    alone = conversation("hello there", "the piano and its violin", "hello again", session="alone")
    scores = []
    for own in (0.0, 0.95):
        ranked = rank_text("violin and piano", [crowd, alone], weights=Weights(own=own, session=0, statement=0))
        scores.append({found.key: found.score for found in ranked}["alone1"])
    assert scores[0] < 0.9 < 0.95 <= scores[1]


def test_neighbours_of_another_session_do_not_count() -> None:
    turns = conversation("Which instrument do you play?", session="a") + conversation("The violin.", session="b")
    assert keys(rank_text("instrument", [turns])) == ["a0"]


def test_who_is_asked_about_comes_first() -> None:
    turns = [
        Passage("ana", "I love hiking", "Ana", "2023-05-08", "a"),
        Passage("ben", "I love hiking", "Ben", "2023-05-08", "b"),
    ]
    ranked = rank_text("What does Ana love about hiking?", [[turns[0]], [turns[1]]])
    assert keys(ranked) == ["ana", "ben"]
    assert ranked[0].parts["speaker"] > 0
    assert "speaker" not in ranked[1].parts


def test_a_question_about_time_prefers_a_turn_that_tells_one() -> None:
    told = conversation("I ran a race last week", session="a")
    newer = conversation("I ran a race for charity", session="b", date="2023-06-01")
    assert keys(rank_text("When was the race?", [told, newer])) == ["a0", "b0"]


def test_a_score_is_the_sum_of_its_parts() -> None:
    for scored in rank_text("When did Ana run?", [conversation("Ana ran yesterday", "Really?", speakers="AB")]):
        assert scored.score == pytest.approx(sum(scored.parts.values()))


def test_terms_are_those_in_the_item_itself() -> None:
    turns = conversation("the violin and the dog", "a dog", "nothing")
    found = {scored.key: scored.terms for scored in rank_text("violin dogs", [turns])}
    assert found == {"s0": ("violin", "dog"), "s1": ("dog",), "s2": ()}


def test_the_newest_of_equals_comes_first() -> None:
    turns = [
        conversation("hello", session=session, date=date)
        for session, date in (("a", "2023-01-01"), ("b", "2024-01-01"))
    ]
    assert keys(rank_text("hello", turns)) == ["b0", "a0"]


def test_of_equal_time_the_later_turn_comes_first() -> None:
    turns = [Passage(key, "hello", date="2023-01-01") for key in ("z", "a")]
    assert keys(rank_text("hello", [turns], weights=BARE)) == ["a", "z"]


@pytest.mark.parametrize("query", ["", "   ", "🎉", "absent"])
def test_a_query_without_a_match_finds_nothing(query: str) -> None:
    assert rank_text(query, [conversation("hello", "world")]) == []


def test_no_passages_give_no_results() -> None:
    assert rank_text("hello", []) == rank_text("hello", [[]]) == []


def test_a_limit_keeps_the_best() -> None:
    turns = conversation("dog", "dog cat", "dog cat bird", "nothing")
    everything = rank_text("dog cat bird", [turns])
    assert rank_text("dog cat bird", [turns], limit=2) == everything[:2]
    assert rank_text("dog cat bird", [turns], limit=99) == everything


def test_what_is_not_wanted_is_left_out_but_counts_as_a_neighbour() -> None:
    turns = conversation("Which instrument do you play?", "The violin.")
    ranked = rank_text("instrument", [turns], wanted=lambda key: key != "s0", limit=1)
    assert keys(ranked) == ["s1"]


def test_a_part_of_the_hits_gives_the_scores_of_all() -> None:
    """Where a common word is in more turns than are given, as many more have it in reach."""
    turns = [
        [
            Passage(
                f"{session}-{turn}",
                f"tea and {'a violin' if session % 90 == 0 else 'talk'}" if turn == 2 else "yes",
                session=str(session),
            )
            for turn in range(5)
        ]
        for session in range(360)
    ]
    whole = rank_text("tea violin", turns, total=1_800)
    part = rank_text("tea violin", turns[::9], total=1_800, frequencies={"tea": 360, "violin": 4})
    wanted = {found.key: found.score for found in whole}
    assert [found.key for found in part[:12]] == [found.key for found in whole[:12]]
    assert all(abs(found.score - wanted[found.key]) < 0.01 for found in part)


def test_frequencies_of_the_scope_tell_how_common_a_term_is() -> None:
    turns = [conversation("dog", session="a"), conversation("violin", session="b")]
    assert keys(rank_text("dog violin", turns, total=1000, weights=BARE, frequencies={"dog": 900}))[0] == "b0"
    assert keys(rank_text("dog violin", turns, total=1000, weights=BARE, frequencies={"violin": 900}))[0] == "a0"


def test_terms_given_with_a_passage_replace_its_text() -> None:
    turns = conversation("I went hiking", "a dog")
    divided = [turn._replace(terms=index_words(turn.text)) for turn in turns]
    assert rank_text("hikes", [divided]) == rank_text("hikes", [turns])


def test_cyrillic_and_cjk_are_ranked() -> None:
    turns = conversation("Мы поехали в Жуковку", "私は東京に住んでいます", "hello there", "and more")
    assert keys(rank_text("ЖУКОВКУ", [turns], weights=BARE)) == ["s0"]
    assert keys(rank_text("東京", [turns], weights=BARE)) == ["s1"]


def test_windows_around_the_hits_find_what_the_whole_conversation_finds() -> None:
    rng = random.Random(7)
    filler = ["ok", "I see", "sure thing", "let us talk", "fine weather", "good morning"]
    turns = conversation(*(rng.choice(filler) for _ in range(40)))
    for place, text in ((8, "my violin is old"), (9, "how old?"), (25, "a new violin"), (27, "a violin lesson")):
        turns[place] = turns[place]._replace(text=text)
    hits = [place for place, turn in enumerate(turns) if "violin" in turn.text]
    windows = [turns[place - 3 : place + 4] for place in hits]
    whole, partial = rank_text("violin", [turns], total=40), rank_text("violin", windows, total=40)
    assert keys(partial)[:4] == keys(whole)[:4]
    assert set(keys(partial)) == set(keys(whole))


VOCABULARY = "dog cats violin went 猫 猫が好き Ж ж 🎉 café May 7 what Ana: ok?"
words = st.sampled_from(VOCABULARY.split())
texts = st.lists(words, max_size=6).map(" ".join)
runs = st.lists(st.lists(texts, min_size=1, max_size=5), max_size=5)


@st.composite
def passage_runs(draw: st.DrawFn) -> list[list[Passage]]:
    found = []
    for number, contents in enumerate(draw(runs)):
        day = draw(st.sampled_from(["2023-05-07", "2023-05-08", "", "no date"]))
        speaker = draw(st.sampled_from(["", "Ana", "Ж", "猫"]))
        found.append([Passage(f"{number}.{place}", text, speaker, day, day) for place, text in enumerate(contents)])
    return found


@given(query=st.one_of(texts, st.text()), windows=passage_runs(), seed=st.randoms(use_true_random=False))
def test_the_order_of_windows_does_not_matter(query: str, windows: list[list[Passage]], seed: random.Random) -> None:
    shuffled = list(windows)
    seed.shuffle(shuffled)
    assert rank_text(query, windows) == rank_text(query, shuffled)


@given(query=texts, windows=passage_runs())
def test_overlapping_windows_are_joined(query: str, windows: list[list[Passage]]) -> None:
    pairs = [run[place : place + 2] for run in windows for place in range(len(run))]
    assert rank_text(query, pairs) == rank_text(query, windows)


@given(query=texts, windows=passage_runs(), bonus=st.sampled_from([0.0, 0.1, 5.0]), limit=st.integers(0, 9))
def test_the_first_results_are_those_with_the_highest_scores(
    query: str, windows: list[list[Passage]], bonus: float, limit: int
) -> None:
    weights = Weights(statement=bonus, time=bonus, asked_speaker=bonus)
    everything = rank_text(query, windows, weights=weights)
    assert everything == sorted(everything, key=lambda scored: -scored.score)
    assert all(scored.score == pytest.approx(sum(scored.parts.values())) for scored in everything)
    assert rank_text(query, windows, weights=weights, limit=limit) == everything[:limit]


@given(query=st.text(), contents=st.lists(st.text(), max_size=4), speaker=st.text(), date=st.text())
def test_any_text_can_be_ranked(query: str, contents: list[str], speaker: str, date: str) -> None:
    turns = [Passage(str(place), text, speaker, date) for place, text in enumerate(contents)]
    ranked = rank_text(query, [turns])
    assert all(scored.score > 0 for scored in ranked)
    assert [scored.score for scored in ranked] == sorted((scored.score for scored in ranked), reverse=True)


@given(query=texts, windows=passage_runs())
def test_weights_of_zero_rank_by_nothing_but_leave_no_error(query: str, windows: list[list[Passage]]) -> None:
    nothing = Weights(**dict.fromkeys(Weights.__slots__, 0))
    rank_text(query, windows, weights=nothing)


def test_windows_that_contradict_each_other_lose_no_passage() -> None:
    first, second = conversation("a dog", "two dogs")
    assert sorted(keys(rank_text("dog", [[first, second], [second, first]]))) == ["s0", "s1"]


@pytest.mark.parametrize("bad", [-1, float("nan"), float("inf"), "1"])
def test_a_weight_that_is_no_amount_is_refused(bad: object) -> None:
    with pytest.raises(InputError, match="before"):
        Weights(before=bad)  # type: ignore[arg-type]


def test_a_part_above_one_is_refused() -> None:
    with pytest.raises(InputError, match="semantic"):
        Weights(semantic=1.5)


# Hybrid ranking


def test_meaning_finds_what_no_word_does() -> None:
    turns = conversation("I adopted a puppy", "The weather is fine")
    ranked = rank_hybrid("dog", [turns], {"s0": 0.8, "s1": 0.1})
    assert keys(ranked) == ["s0", "s1"]
    assert ranked[0].parts["semantic"] > ranked[1].parts["semantic"]


def test_words_and_meaning_are_added_in_proportion() -> None:
    turns = [conversation("dog", session="a"), conversation("puppy", session="b")]
    similar = {"a0": 0.2, "b0": 0.8}
    words_first = Weights(semantic=0.1, before=0, after=0, session=0)
    meaning_first = Weights(semantic=0.9, before=0, after=0, session=0)
    assert keys(rank_hybrid("dog", turns, similar, weights=words_first))[0] == "a0"
    assert keys(rank_hybrid("dog", turns, similar, weights=meaning_first))[0] == "b0"


def test_without_similarities_a_hybrid_ranking_is_the_text_ranking() -> None:
    turns = conversation("dog", "dog cat", "nothing")
    assert rank_hybrid("cat", [turns], {}) == rank_text("cat", [turns])


def test_negative_similarities_count_as_none() -> None:
    turns = conversation("dog", "cat")
    assert rank_hybrid("cat", [turns], {"s0": -0.5}) == rank_text("cat", [turns])


def test_a_query_without_terms_is_ranked_by_meaning() -> None:
    assert keys(rank_hybrid("🎉", [conversation("party", "work")], {"s0": 0.5, "s1": 0.2})) == ["s0", "s1"]


# Names


@pytest.mark.parametrize(
    ("query", "shorter"),
    [
        ("What is Ana's job?", "What is job?"),
        ("what did ana cook", "what did cook"),
        ("What did Ben Miller say to Ana about Rome?", "What did say to about Rome?"),
        ("What did Ben say about Banana?", "What did say about Banana?"),
        ("Will Will come to the party?", "come to the party?"),
        ("will it rain?", "will it rain?"),
        ("Who is Ana?", "Who is Ana?"),
        ("Ana", "Ana"),
        ("", ""),
    ],
)
def test_names_are_taken_out_of_a_query(query: str, shorter: str) -> None:
    assert query_without_names(query, ["Ana", "Ben Miller", "Will"]) == shorter


def test_roles_are_no_names() -> None:
    assert query_without_names("Which AI tool did the human buy?", ["ai", "human", "tool"]) == (
        "Which AI tool did the human buy?"
    )


@given(st.text(), st.lists(st.text(), max_size=4))
def test_taking_out_any_names_leaves_a_query(query: str, names: list[str]) -> None:
    assert bool(query_without_names(query, names)) == bool(query)


@pytest.mark.parametrize(
    ("name", "content", "speaker"),
    [
        ("Ana", "Ben: hello", "Ana"),
        (None, "Ben: hello", "Ben"),
        (None, "Ben Miller: hello", "Ben Miller"),
        (None, "hello: world", "human"),
        (None, "https://example.org", "human"),
        (None, "12:30 is fine", "human"),
        ("", "hello", "human"),
    ],
)
def test_the_speaker_is_the_name_the_label_or_the_role(name: str | None, content: str, speaker: str) -> None:
    assert speaker_of(name, "human", content) == speaker


def test_a_turn_that_says_nothing_is_not_an_answer() -> None:
    window = [
        Passage("asked", "Where is the train?"),
        Passage("calling", ""),
        Passage("answer", "The train is in Porto."),
    ]

    assert [found.key for found in rank_text("train", [window])] == ["answer", "asked"]


def languages() -> list[Path]:
    return sorted((Path(__file__).parent / "languages").glob("*.txt"))


@pytest.mark.parametrize("stemming", [True, False], ids=["stemmed", "without stemmers"])
@pytest.mark.parametrize("language", languages(), ids=lambda path: path.stem)
def test_facts_are_found_by_other_forms_of_their_words(
    language: Path, stemming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inflection, compounds and typing errors: nine of ten facts are among the first five for their question."""
    if not stemming:
        for module in ("terms", "stemming"):
            monkeypatch.setattr(f"memoranda_backend.text.{module}.stemmer_of", lambda language: str)
    pairs = [line.split(" | ") for line in language.read_text(encoding="utf-8").splitlines()]
    facts = conversation(*(fact for fact, _ in pairs))
    found = [
        fact.key in keys(rank_text(question, [facts]))[:5] for fact, (_, question) in zip(facts, pairs, strict=True)
    ]
    assert sum(found) >= 0.9 * len(pairs)


def test_facts_in_many_languages_are_found_in_one_scope() -> None:
    """Rare words of one language are no reason to leave those of another behind."""
    pairs = [line.split(" | ") for path in languages() for line in path.read_text(encoding="utf-8").splitlines()]
    facts = [fact._replace(terms=index_words(fact.text)) for fact in conversation(*(fact for fact, _ in pairs))]
    found = [
        fact.key in keys(rank_text(asked, [facts], limit=5)) for fact, (_, asked) in zip(facts, pairs, strict=True)
    ]
    worst = min(sum(found[first : first + 25]) for first in range(0, len(found), 25))
    assert worst >= 0.9 * 25


def test_a_long_item_is_found_by_its_best_passage() -> None:
    """What is said once in a long answer counts as if it had been said alone, and the result shows where."""
    chatter = "and then there is a lot more to tell about many other things which nobody asked for at all"
    answer = " ".join([*[chatter] * 20, "The violin stands in the attic beside the old piano.", *[chatter] * 20])
    spread = " ".join(["violin", *[chatter] * 20, "attic", *[chatter] * 20])
    turns = [conversation(text, session=name) for name, text in zip("abc", (spread, answer, chatter), strict=True)]
    best = rank_text("violin in the attic", turns)[0]
    assert best.key == turns[1][0].key
    passage = passage_at(answer, *best.part)
    assert "stands in the attic" in passage
    assert len(passage) < len(answer) / 5


def test_a_long_turn_lends_only_what_it_says_close_by() -> None:
    """A question after a long answer is not about everything in it."""
    chatter = " ".join(["one more word of many that fill an answer"] * 40)
    far = conversation(f"The violin is in the attic. {chatter}", "And what of the other things?", session="far")
    near = conversation("The violin is in the attic.", "And what of the other things?", session="near")
    ranked = {found.key: found.parts.get("text", 0.0) for found in rank_text("violin in the attic", [far, near])}
    assert ranked.get(far[1].key, 0.0) < ranked[near[1].key] / 2


def test_a_long_turn_takes_nothing_from_the_turns_around_it() -> None:
    """What a long answer is about it says itself; a short one has only its question."""
    chatter = " ".join(["one more word of many that fill an answer"] * 40)
    short = conversation("Which instrument do you play?", "The violin.", session="short")
    long = conversation("Which instrument do you play?", chatter, session="long")
    found = keys(rank_text("instrument", [short, long]))
    assert short[1].key in found
    assert long[1].key not in found


def test_an_item_says_what_its_letters_are_worth() -> None:
    ranked = rank_text("Wohnungen im Dachgeschoss", [conversation("Wir haben eine Dachgeschosswohnung.", "Schön.")])
    assert ranked[0].parts["letters"] > 0


def test_letters_in_common_by_chance_find_nothing() -> None:
    assert rank_text("telescope", [conversation("the recipe asks for saffron", "telling a scholar's tale")]) == []


@pytest.mark.parametrize("role", ["user", "assistant", "human", "ai"])
def test_a_role_is_not_who_is_asked_about(role: str) -> None:
    turns = [Passage("a", "roles are stored", speaker=role), Passage("b", "roles are stored", speaker="Zoe")]
    assert all("speaker" not in found.parts for found in rank_text(f"{role} roles", [turns]))


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        ("What is my dog called?", "user"),
        ("Can you show me how to train a dog?", "user"),
        ("What did you tell me about the dog?", "assistant"),
        ("Remind me which dog you recommended", "assistant"),
        ("What is Ana's dog called?", ""),
        ("How do you train a dog?", ""),
        ("In which US state is the dog?", ""),
        ("Wie heißt mein Hund?", "user"),
        ("Welchen Hund hast du mir empfohlen?", ""),
        ("¿Cómo se llama mi perro?", "user"),
        ("Как зовут мою собаку и где я живу?", "user"),
        ("我的狗叫什么名字", "user"),
    ],
)
def test_a_query_in_the_first_person_is_about_who_asks(query: str, asked: str) -> None:
    assert asked_person(query)[0] == asked


@pytest.mark.parametrize("user", ["user", "human", "Ana"])
def test_what_the_user_said_comes_first_for_her_own_question(user: str) -> None:
    turns = [Passage(speaker, "the dog has a collar", speaker, session=speaker) for speaker in ("assistant", user)]
    windows = [turns[:1], turns[1:]]
    assert keys(rank_text("Which collar does my dog have?", windows)) == [user, "assistant"]
    assert keys(rank_text("Which collar did you suggest to me for the dog?", windows)) == ["assistant", user]


def test_where_nobody_is_known_the_first_person_tells_what_the_user_said() -> None:
    turns = [Passage("a", "the dog has a collar", session="a"), Passage("b", "my dog has a collar", session="b")]
    ranked = rank_text("Which collar does my dog have?", [turns[:1], turns[1:]])
    assert [("speaker" in found.parts) for found in ranked] == [True, False]
    assert ranked[0].key == "b"


def test_meaning_counts_by_how_much_it_stands_out() -> None:
    words = np.array([1.0, *[0.5] * 20])
    alike, apart = np.array([1.0, *[0.99] * 20]), np.array([1.0, *[0.01] * 20])
    assert semantic_share(0.4, words, alike) < 0.4 < semantic_share(0.4, words, apart)


def test_what_only_one_side_finds_is_ranked_by_it_alone() -> None:
    nothing, something = np.zeros(2), np.array([1.0, 0.9])
    assert semantic_share(0.4, nothing, something) == 1.0
    assert semantic_share(0.4, something, nothing) == 0.0


def test_meaning_counts_more_where_no_item_has_much_of_the_query() -> None:
    scores = np.array([1.0, 0.9])
    part = partial(semantic_share, 0.4, scores, scores)
    shares = [part(covered=covered) for covered in (0.0, 0.1, 0.4, 0.7, 1.0)]
    assert shares[0] > shares[1] > shares[2] > shares[3] == shares[4]
    assert part(covered=0.1, asking=False) > shares[1]
    assert part(covered=0.7, asking=False) == shares[3]
    assert semantic_share(0, scores, scores, covered=0.1, asking=False) == 0


def test_a_word_in_common_by_chance_does_not_outweigh_what_is_meant() -> None:
    """Who tells what goes on asks for what has to do with it, not for another use of one of the words."""
    facts = conversation("I can't stand horror films.", *["So I see."] * 12, "I switched to decaf, it lets me sleep.")
    near = dict(zip((fact.key for fact in facts), [*[0.1] * 13, 0.4], strict=True))
    found = rank_hybrid("I'm standing in line at the espresso bar with my colleagues.", [facts], near)
    assert keys(found)[0] == facts[-1].key


def test_figures_are_not_in_common_by_chance() -> None:
    """A number of an error, of an order or of a part is what is looked for, whatever else is told."""
    facts = conversation("E1234: the disk is full.", *["So I see."] * 12, "The machine fails when it is started.")
    near = dict(zip((fact.key for fact in facts), [*[0.1] * 13, 0.4], strict=True))

    def by_words(shared: str) -> float:
        told = f"My colleagues and I have {shared} again today, right after the computer boots."
        return next(found.parts["text"] for found in rank_hybrid(told, [facts], near) if found.key == facts[0].key)

    assert by_words("E1234") > 2 * by_words("a disk") > 0


def test_a_question_needs_no_mark() -> None:
    facts = conversation("I can't stand horror films.", *["So I see."] * 12, "I switched to decaf, it lets me sleep.")
    near = dict(zip((fact.key for fact in facts), [*[0.1] * 13, 0.4], strict=True))
    query = "what do people who stand in line at the bar order"
    assert rank_hybrid(f"{query}?", [facts], near) == rank_hybrid(query, [facts], near)


def test_a_date_says_when_and_not_what_a_query_means() -> None:
    facts = conversation("I bought a boat.", *["So I see."] * 12, "I sail on the lake.")
    near = dict(zip((fact.key for fact in facts), [*[0.1] * 13, 0.4], strict=True))
    undated = rank_hybrid("Who bought a boat?", [facts], near)
    assert rank_hybrid("Who bought a boat on 13 October 1999?", [facts], near) == undated


def test_an_embedder_that_does_not_know_the_language_changes_nothing() -> None:
    """To such a one all texts are alike, so that what it finds nearest is chance."""
    facts = conversation("พี่สาวเป็นพยาบาล", "ประตูห้องครัวสีเขียว", "นัดหมอฟันวันพฤหัสบดี", "จักรยานถูกขโมย")
    near = dict(zip((fact.key for fact in facts), (0.99, 0.98, 0.99, 0.995), strict=True))
    query = "ประตูห้องครัวสีอะไร"
    assert rank_hybrid(query, [facts], near) == rank_text(query, [facts])


@pytest.mark.parametrize(
    ("content", "called"),
    [
        ("Thanks, Ada! That helps.", True),
        ("hey Ada, how are you?", True),
        ("Danke, Ada.", True),
        ("We went to Rome, Ada, and Berlin.", False),
        ("Hi Adamantia!", False),
        ("Thanks, ada!", False),
        ("this Ada! is the wrong Hi", False),
        (". " * 50 + "Thanks, Ada!", False),
    ],
)
def test_who_is_called_by_name_takes_part(content: str, called: bool) -> None:
    assert taking_part("What does Ada's dog eat?", [(None, content)]) == ({"Ada"} if called else set())


@pytest.mark.parametrize(
    ("content", "calls"),
    [
        ("That's lovely, Ada! I sail too.", True),
        ("Wow Ada! I sail too.", True),
        ("Ada, you are right.", True),
        ("Ada! Bo and I sail too.", True),
        ("I met Ada.", False),
        ("We have seen Ada, and Bo.", False),
        ("Bo, Adamantia sails.", False),
        ("McAda, you are right.", False),
        ("See you, Ada", False),
        ("That's lovely, Ada!\nThanks, I sail a lot.", False),
    ],
)
def test_a_name_is_called_where_it_stands_by_itself(content: str, calls: bool) -> None:
    assert ("Ada" in called_names(content)[0]) is calls


@pytest.mark.parametrize(
    ("query", "talk"),
    [
        ("What does Ada sail?", ["Hey Bo!", "Right, Ada!"]),
        ("What do Ada and Bo sail?", ["Hey Bo!", "Hey Ada!", "Right, Ada!"]),
        ("what does ada sail?", ["Hey Ada!", "Right, Ada!"]),
    ],
)
def test_no_one_is_called_who_is_not_greeted_or_not_alone(query: str, talk: list[str]) -> None:
    ranked = rank_text(query, [[Passage(text, text, session=text)] for text in [*talk, "I sail."]])
    assert not any("speaker" in found.parts for found in ranked)


def test_who_calls_somebody_by_name_is_not_whom_the_query_names() -> None:
    talk = ["Hey Ada!", "I sail on the lake in June.", "That's lovely, Ada! I sail on the lake in June, too."]
    ranked = rank_text("On which lake does Ada sail?", [[Passage(text, text, session=text)] for text in talk])
    assert keys(ranked)[0] == talk[1]
    assert [("speaker" in found.parts) for found in ranked] == [True, False]


def talk_of_two(calls: Sequence[int]) -> list[Passage]:
    """Twenty turns, of which these call Ada, and two that say the same, an even and an odd number of turns later."""
    texts = [f"Hey Ada! How is number {turn}?" if turn in calls else f"Number {turn} is well." for turn in range(20)]
    return conversation(*texts, "I sail on the lake.", "I sail on the lake.", "Bye!")


def test_where_two_take_turns_every_other_one_is_of_the_one_who_is_called() -> None:
    """By age alone the later of the two would come first, since neither of them calls anybody."""
    answering = talk_of_two(range(1, 20, 2))  # Turn 19 is said to Ada, so 20 is hers.
    assert keys(rank_text("On which lake does Ada sail?", [answering]))[0] == answering[20].key
    calling = talk_of_two(range(0, 20, 2))
    assert keys(rank_text("On which lake does Ada sail?", [calling]))[0] == calling[21].key


@pytest.mark.parametrize(
    "calls", [(1, 3, 5, 19), (0, 1, 3, 4, 6, 7, 9, 10, 12, 13, 15, 16, 18, 19)], ids=["few", "not in turn"]
)
def test_calls_that_are_few_or_not_an_even_number_of_turns_apart_tell_of_no_others(calls: Sequence[int]) -> None:
    found = rank_text("On which lake does Ada sail?", [talk_of_two(calls)])
    assert [("speaker" in each.parts) for each in found if "lake" in each.terms] == [True, True]


def test_where_speakers_are_named_it_is_they_who_tell_what_was_said_by_whom() -> None:
    talk = [("Bo", "Hey Ada!"), ("Ada", "I sail on the lake, Ada!"), ("Bo", "I sail on the lake.")]
    ranked = rank_text("On which lake does Ada sail?", [[Passage(text, text, who, session=text)] for who, text in talk])
    assert keys(ranked)[0] == talk[1][1]


def test_speakers_take_part_whether_the_query_names_them_or_not() -> None:
    assert taking_part("what does the dog eat?", [("Ada", "Thanks, Bo!"), (None, "Cleo: hello")]) == {"Ada", "Cleo"}
