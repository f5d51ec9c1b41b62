"""How much a message tells of the person who wrote it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda_backend.text import (
    asks_about_self,
    how_telling,
    is_passing_remark,
    is_request,
    is_small_talk,
    statements,
)

TOLD = [
    "I'm allergic to hazelnuts so pls no Nutella",
    "wife Agnieszka and two kids, Kuba (9) and Zosia (5), they stay in Lublin still",
    "Frau Holle ist letzte Woche gestorben",
    "suspendí Estructuras, la recu es el 9 de junio",
    "J'ai déménagé à Lyon en mars",
    "Я переехал в Казань, работаю врачом",
    "我对花生过敏",
    "私は卵アレルギーがあります",
    "monthly rent is 890 warm, is that ok for 48 sqm?",
]
ASKED = [
    "how long to boil an egg, soft",
    "Make it shorter",
    "can you summarise this mail, I have no time: “Dear all, I moved the meeting to Monday since I am ill.”",
    'proofread pls: "Last summer me and my class was walking along the coast when we seen a boat"',
    "Wie heißt die Hauptstadt von Chad",
    "¿Con quién vivo ahora?",
    "怎么做红烧肉？",
]


@pytest.mark.parametrize("text", TOLD)
def test_what_people_say_of_themselves_tells_something(text: str) -> None:
    assert how_telling(text) > 0
    assert statements(text)


@pytest.mark.parametrize("text", ASKED)
def test_questions_tasks_and_pasted_texts_tell_nothing(text: str) -> None:
    assert how_telling(text) == 0
    assert is_request(text)


REMARKS = [
    "wow ok I'll pass that on",
    "im so tired today",
    "ok that worked",
    "didn't work",
    "das hat geklappt",
    "no funciona",
]


@pytest.mark.parametrize("text", REMARKS)
def test_passing_remarks_tell_nothing(text: str) -> None:
    assert is_passing_remark(text)
    assert how_telling(text) == 0
    assert how_telling(f"{text}. I moved to Porto.") > 0


@pytest.mark.parametrize("text", ["I quit", "I smoke", "I'm pregnant", "I'm not well", "He left me", "I am 40", ""])
def test_few_words_may_tell_much(text: str) -> None:
    assert not is_passing_remark(text)


def test_a_question_that_somebody_else_asked_tells_nothing() -> None:
    assert how_telling("a friend asked me how much a dog costs per year, any idea?") == 0
    assert how_telling("My doctor asked me to stop eating salt, any idea why?") > 0


def test_names_and_the_first_person_tell_more() -> None:
    assert how_telling("My sister Ana lives in Porto with 2 cats") > how_telling("the weather is fine and dry today")


@pytest.mark.parametrize("text", ["ok", "thanks!", "ok cool thx", "jajaja gracias", "Hello", "спасибо", "  "])
def test_small_talk_is_known(text: str) -> None:
    assert is_small_talk(text)
    assert not is_small_talk(f"{text} I moved")


def test_a_question_in_the_first_person_is_about_who_asks() -> None:
    assert asks_about_self("Where do I live?")
    assert asks_about_self("Can I eat this?")
    assert not asks_about_self("I am fine. How is Caroline?")
    assert not asks_about_self("What did Caroline say?")


@given(st.text())
def test_any_text_can_be_judged(text: str) -> None:
    assert 0 <= how_telling(text) <= 1.01
    assert all(sentence in text or sentence.strip() for sentence in statements(text))
    is_request(text)
    is_small_talk(text)
