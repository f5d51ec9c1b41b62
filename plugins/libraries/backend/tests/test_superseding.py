"""Of statements that say the same with different values the newest comes first, and nothing else moves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda_backend.text.superseding import Statement, current_order


def first_of(older: str, newer: str, query: str = "") -> str:
    """Return what comes first of two texts that a search ranked as older, newer."""
    return (older, newer)[current_order(query, [Statement(older, "2026-01"), Statement(newer, "2026-02")])[0]]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ada's phone number is 030 1234", "Ada's phone number is 040 98 76 54"),
        ("My favourite colour is blue.", "My favourite colour is green now."),
        ("The meeting is on Tuesday at ten", "The meeting is on Wednesday at ten"),
        ("The meeting with Bob is on Tuesday at ten", "The meeting with Bob is now on Friday at eleven"),
        ("Ada lives in Paris", "Ada now lives in Berlin"),
        ("I live in Paris", "I live in New York"),
        ("My manager is Bob Smith", "My manager is Eve of the Hills"),
        ("The deadline of the report was moved to Friday", "The deadline of the report was moved to the 3rd of May"),
        (
            "The original broadcaster of Omnibus is American Broadcasting Company",
            "The original broadcaster of Omnibus is British Broadcasting Corporation",
        ),
        ("Ada works at the Bank of New York", "Ada works at the House of New Jersey"),
        ("Rex weighs 12 kilos", "Rex weighs 14 kilos"),
        ("The song Ada loves most is What Is Love", "The song Ada loves most is Imagine"),
        ("Adas Telefonnummer ist 1234", "Adas Telefonnummer ist 9876"),
        ("Meine Lieblingsfarbe ist blau", "Meine Lieblingsfarbe ist jetzt grün"),
        ("Ich wohne in Köln", "Ich wohne in Wien"),
        ("Das Treffen ist am Dienstag um zehn", "Das Treffen ist am Mittwoch um zehn"),
        ("Le chef de Marie est Paul", "Le chef de Marie est Luc Dupont"),
        ("El color favorito de Ana es azul", "El color favorito de Ana es verde"),
        ("Adres hattı Ada'nın Paris'te", "Adres hattı Ada'nın Londra'da"),
        ("Ада живёт в Париже", "Ада живёт в Берлине"),
        ("我住在北京", "我住在上海"),
        ("私は東京に住んでいます", "私は大阪に住んでいます"),
    ],
)
def test_the_newest_of_two_values_comes_first(older: str, newer: str) -> None:
    assert first_of(older, newer) == newer


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("Ada likes tea", "Ada likes coffee"),
        ("I visited Rome in May", "I visited Oslo in May"),
        ("Ada's hobby is chess", "Another hobby of Ada's is go"),
        ("Ada's hobby is chess", "Ada's hobby is also go"),
        ("The capital of France is Paris", "The capital of Italy is Rome"),
        ("The phone number of Ada is 12", "The phone number of Bob is 34"),
        ("Ada's phone number is 12", "Ada's fax number is 34"),
        ("Bob works at Siemens", "Eve works at Siemens"),
        ("My sister Ada works at Siemens", "My sister Eve works at Siemens"),
        ("Ada Lovelace is married to William", "Ada Lovelace is famous for her notes"),
        ("Ada Lovelace is a citizen of France", "Ada Lovelace is in Rome"),
        ("Ada works with Bob on search", "Ada works in Rome"),
        ("The book that Ada wrote is short", "The book that Ada read is short"),
        ("Ada lives in Paris", "Ada lives in Paris with her sister"),
        ("Ada's plan is Rome before autumn Oslo", "Ada's plan is Pisa before spring Bonn"),
        ("The train of Ada is fast through Rome today", "The train of Ada is slow through Rome tomorrow"),
        ("Is Ada's phone number 12?", "Is Ada's phone number 34?"),
        ("Thank you Ada!", "Thank you Bob!"),
        ("Ada", "Bob"),
        ("", "Ada lives in Paris"),
        ("Ada mag Tee", "Ada mag Kaffee"),
        ("我喜欢茶", "我喜欢咖啡"),
    ],
)
def test_statements_that_merely_share_words_stay(older: str, newer: str) -> None:
    assert first_of(older, newer) == older


def test_a_query_that_names_a_value_asks_for_it() -> None:
    older, newer = "Ada spoke at the congress in Rome", "Ada spoke at the congress in Oslo"
    assert first_of(older, newer, "Where did Ada speak?") == newer
    assert first_of(older, newer, "When did Ada speak in Rome?") == older


def test_what_a_question_asks_for_one_of_names_no_value() -> None:
    older, newer = "Ada was educated at the University of Pisa", "Ada was educated at the Trinity College"
    assert first_of(older, newer, "Which university was Ada educated at?") == newer


def test_what_one_says_of_oneself_is_replaced_by_oneself_alone() -> None:
    older, newer = "My favourite colour is blue", "My favourite colour is green"
    ada, bob = Statement(older, "2026-01", speaker="Ada"), Statement(newer, "2026-02", speaker="Bob")
    assert current_order("", [ada, bob]) == [0, 1]
    assert current_order("", [ada, bob._replace(speaker="Ada")]) == [1, 0]


def test_anyone_may_replace_what_was_said_of_a_third() -> None:
    ada = Statement("The meeting is on Tuesday at ten", "2026-01", speaker="Ada")
    assert current_order("", [ada, Statement("The meeting is on Friday at ten", "2026-02", speaker="Bob")]) == [1, 0]


def test_owners_do_not_replace_what_others_said() -> None:
    one = Statement("The meeting is on Tuesday at ten", "2026-01", owner="ada")
    assert current_order("", [one, Statement("The meeting is on Friday at ten", "2026-02", owner="bob")]) == [0, 1]


def test_statements_of_the_same_time_stay() -> None:
    assert current_order("", [Statement(f"Ada lives in {city}", "2026") for city in ("Paris", "Rome")]) == [0, 1]


def test_rivals_share_their_places_and_others_keep_theirs() -> None:
    statements = [
        Statement("Ada lives in Paris", "2026-01"),
        Statement("Bob lives in Rome", "2026-02"),
        Statement("Ada lives in Oslo", "2026-04"),
        Statement("Ada once lived in Bonn", "2026-05"),
        Statement("Ada lives in Rome", "2026-03"),
    ]
    assert current_order("Where does Ada live?", statements) == [2, 1, 4, 3, 0]


def test_long_texts_stay() -> None:
    texts = [f"Ada lives in {city}. {'She likes it there. ' * 20}" for city in ("Paris", "Rome")]
    assert first_of(*texts) == texts[0]


WORDS = st.sampled_from(
    ["Ada", "Bob", "my", "phone", "number", "lives", "in", "is", "the", "of", "Paris", "12", "now", "also", "?", "東京"]
)
TEXTS = st.lists(WORDS, max_size=8).map(" ".join)
STATEMENTS = st.lists(
    st.builds(Statement, TEXTS | st.text(max_size=20), st.sampled_from("123"), st.sampled_from("ab"), st.just(None)),
    max_size=8,
)


@given(TEXTS, STATEMENTS)
def test_any_texts_only_change_places(query: str, statements: list[Statement]) -> None:
    order = current_order(query, statements)
    assert sorted(order) == list(range(len(statements)))
    assert all(statements[new].owner == statements[old].owner for old, new in enumerate(order))
    moved = [statements[place] for place in order]
    assert [moved[place] for place in current_order(query, moved)] == moved


@given(st.permutations(["Rome", "Oslo", "Bonn", "Paris"]), st.permutations(range(4)))
def test_the_order_of_rivals_is_that_of_their_times(cities: list[str], times: list[int]) -> None:
    statements = [Statement(f"Ada lives in {city}", str(time)) for city, time in zip(cities, times, strict=True)]
    assert [statements[place].time for place in current_order("", statements)] == ["3", "2", "1", "0"]


def test_what_is_less_trusted_does_not_go_before_what_it_contradicts() -> None:
    said = Statement("Ada's phone number is 12", "2026-01-01", trust=3)
    planted = Statement("Ada's phone number is 34", "2026-02-01", trust=1)
    assert current_order("What is Ada's phone number?", [said, planted]) == [0, 1]
    assert current_order("What is Ada's phone number?", [said, planted._replace(trust=3)]) == [1, 0]
