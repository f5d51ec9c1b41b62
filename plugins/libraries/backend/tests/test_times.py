"""The times that a question names, in many languages, and the places of what was said then."""

from __future__ import annotations

from datetime import date

import pytest

from memoranda.items import HumanMemory, MemoryMetadata
from memoranda.store.in_memory import InMemoryStore
from memoranda_backend.ranking.times import named_times

NOW = date(2024, 5, 15)


def told(query: str, day: str) -> bool:
    return any(time.told(date.fromisoformat(day)) for time in named_times(query, NOW))


@pytest.mark.parametrize(
    ("query", "then", "another"),
    [
        ("What did I do on 2023-10-03?", "2023-10-03", "2023-11-03"),
        ("What did Ada say on October 3rd, 2023?", "2023-10-05", "2022-10-03"),
        ("Where was Ada on the 3rd of October 2023?", "2023-10-03", "2023-03-10"),
        ("What happened on 21.01.2024?", "2024-01-21", "2024-02-21"),
        ("What happened on 01/21/2024?", "2024-01-21", "2024-02-21"),
        ("What happened on 21/01/2024?", "2024-01-21", "2024-02-21"),
        ("Was war am 3. Oktober 2023 los?", "2023-10-03", "2023-09-03"),
        ("Was war am 3.10. mit der Heizung?", "2023-10-03", "2023-03-10"),
        ("Was habe ich im März gesagt?", "2021-03-20", "2021-05-20"),
        ("¿Qué hice el 3 de octubre de 2023?", "2023-10-03", "2023-08-03"),
        ("Qu'est-ce que j'ai fait le 1er août 2023 ?", "2023-08-01", "2023-10-01"),
        ("Cosa ho fatto il 3 ottobre 2023?", "2023-10-03", "2023-08-03"),
        ("O que eu fiz em 3 de março de 2023?", "2023-03-03", "2023-05-03"),
        ("Wat deed ik op 3 oktober 2023?", "2023-10-03", "2023-08-03"),
        ("Vad gjorde jag den 3 oktober 2023?", "2023-10-03", "2023-08-03"),
        ("Co robiłem 3 października 2023?", "2023-10-03", "2023-08-03"),
        ("Что я делал 3 октября 2023 года?", "2023-10-03", "2023-08-03"),
        ("3 Ekim 2023'te ne yaptım?", "2023-10-03", "2023-08-03"),
        ("2023年10月3日我做了什么？", "2023-10-03", "2023-08-03"),
        ("2023年10月3日に何をしましたか？", "2023-10-03", "2023-08-03"),
        ("2023년 10월 3일에 무엇을 했나요?", "2023-10-03", "2023-08-03"),
    ],
)
def test_a_date_is_read(query: str, then: str, another: str) -> None:
    assert told(query, then)
    assert not told(query, another)


@pytest.mark.parametrize(
    ("query", "then", "another"),
    [
        ("What did I say yesterday?", "2024-05-14", "2024-05-02"),
        ("What did we do last week?", "2024-05-08", "2024-04-20"),
        ("Who visited me two weeks ago?", "2024-05-01", "2024-03-01"),
        ("What did Ada buy last spring?", "2023-04-10", "2023-12-01"),
        ("What did Ada buy last year?", "2023-12-30", "2024-02-01"),
        ("Was habe ich vor zwei Wochen gekauft?", "2024-05-01", "2024-03-01"),
        ("¿Qué compré hace dos semanas?", "2024-05-01", "2024-03-01"),
        ("Qu'est-ce que j'ai acheté il y a deux semaines ?", "2024-05-01", "2024-03-01"),
        ("Che cosa ho comprato due settimane fa?", "2024-05-01", "2024-03-01"),
        ("Wat heb ik twee weken geleden gekocht?", "2024-05-01", "2024-03-01"),
        ("Что я купил две недели назад?", "2024-05-01", "2024-03-01"),
        ("我两周前买了什么？", "2024-05-01", "2024-03-01"),
        ("上个月我说了什么？", "2024-04-10", "2024-02-10"),
    ],
)
def test_a_time_is_read_from_when_it_is_asked(query: str, then: str, another: str) -> None:
    assert told(query, then)
    assert not told(query, another)


@pytest.mark.parametrize(
    "query",
    [
        "What is my dog called?",
        "Why may I have the recipe?",
        "Did the band march in the street?",
        "Do I use Python 3.11?",
        "Where did Ada fall?",
        "Did I order 2 cats and 3 dogs?",
        "How did Ada spend a day in the park?",
        "Wie alt ist Ada?",
    ],
)
def test_most_questions_name_no_time(query: str) -> None:
    assert named_times(query, NOW) == []


async def test_half_of_the_places_are_for_what_was_said_then() -> None:
    async with InMemoryStore() as store:
        ada = store.scoped(user_id="ada")
        for month in range(1, 13):
            for day in (13, 14, 15):
                metadata = MemoryMetadata(user_id="ada", session_id=f"{month}-{day}")
                at = f"2023-{month:02}-{day:02}T10:00:00+00:00"
                text = f"Dinner {month}-{day}: " + ("soup" if month == 10 else "dinner with my dear neighbours")
                await store.add(HumanMemory(content=text, created_at=at, metadata=metadata))
        found = await ada.recall("Which dinner with my neighbours did I have in October?", limit=6, min_score=0)
        assert sum(item.created_at.startswith("2023-10") for item in found) == 3
        ago = await ada.recall(
            "Which dinner did I have two weeks ago?", limit=6, min_score=0, now="2023-10-28T10:00:00Z"
        )
        assert sum(item.created_at.startswith("2023-10") for item in ago) == 3
        ranked = await ada.search_ranked(query="Which dinner did I have in October?", limit=30, mode="text")
        assert [each.score for each in ranked] == sorted((each.score for each in ranked), reverse=True)
