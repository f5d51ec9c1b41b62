"""What ADK's own tests ask of a search of memory, which its packages lack: words match, best first, few of many."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest
from adk_events import CHAT, WHOSE, said
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.sessions.session import Session

from memoranda.store import Store
from memoranda_adk import MemorandaMemoryService

BOAT = "Our boat is red."
HARBOUR = "Yes, and the Boat lies in the Harbour!"
TEA = "She drinks green tea."
DECOMPOSED = unicodedata.normalize("NFD", "花子はZoëと話す")


def session_of(*texts: str, **whose: Any) -> Session:
    """Return a session in which these texts were said."""
    given = {**CHAT, **whose}
    names = {"id": given.pop("session_id"), "app_name": given["app_name"], "user_id": given["user_id"]}
    return Session(**names, events=[said("user", text) for text in texts])


async def texts_found(service: Any, query: str, **whose: Any) -> list[str]:
    """Return what the memories say that a service finds."""
    response = await service.search_memory(**{**WHOSE, **whose}, query=query)
    return [memory.content.parts[0].text for memory in response.memories]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("tea", [TEA]),
        ("harbour", [HARBOUR]),
        ("LIES", [HARBOUR]),
        ("Any news of the BOAT?", [BOAT, HARBOUR]),
        ("glacier", []),
    ],
)
async def test_a_word_finds_what_has_it_in_any_case_and_nothing_else(
    store: Store, query: str, expected: list[str]
) -> None:
    for service in (InMemoryMemoryService(), MemorandaMemoryService(store)):
        await service.add_session_to_memory(session_of(BOAT, HARBOUR))
        await service.add_session_to_memory(session_of(TEA, session_id="other"))

        assert sorted(await texts_found(service, query)) == sorted(expected)


@pytest.mark.parametrize(
    ("text", "query", "matches"),
    [
        ("花子は京都に住んでいます", "京都", True),
        ("花子は京都に住んでいます", "大阪", False),
        ("我妹妹住在上海", "上海", True),
        ("我妹妹住在上海", "北京", False),
        ("우리 집은 부산에", "부산에", True),
        ("Наша лодка красная", "лодка", True),
        ("京都 office of Ferry Ltd", "京都", True),
        ("京都 office of Ferry Ltd", "ferry", True),
        ("花子はFerryで島へ行く", "ferry", True),
        ("花子はFerryで島へ行く", "島へ", True),
        ("花子はFerryで島へ行く", "Train", False),
        ("花子はFerryで島へ行く", "erry", False),
        ("The ferry leaves at nine.", "erry", False),
        (DECOMPOSED, "zoë", True),
        (DECOMPOSED, "Max", False),
        (unicodedata.normalize("NFD", "バスで帰る"), "バス", True),
    ],
)
async def test_words_of_every_script_are_found_as_words(store: Store, text: str, query: str, matches: bool) -> None:
    service = MemorandaMemoryService(store)
    await service.add_session_to_memory(session_of(text))

    assert len(await texts_found(service, query)) == matches


async def test_names_with_slashes_are_not_taken_for_those_of_others(store: Store) -> None:
    service = MemorandaMemoryService(store)
    await service.add_session_to_memory(session_of("The code is 4711.", app_name="app/bob", user_id="ada"))

    assert await texts_found(service, "code", app_name="app", user_id="bob/ada") == []
    assert await texts_found(service, "code", app_name="app/bob", user_id="ada") == ["The code is 4711."]


async def test_what_has_most_words_of_the_query_comes_first(store: Store) -> None:
    service = MemorandaMemoryService(store)
    await service.add_session_to_memory(
        session_of("Our ferry is cheap.", "Cheap.", "Our ferry ticket is cheap.", "The sky is blue.")
    )

    found = await texts_found(service, "ferry ticket cheap")
    assert found == ["Our ferry ticket is cheap.", "Our ferry is cheap.", "Cheap."]


async def test_a_word_that_everything_has_does_not_return_everything(store: Store) -> None:
    service = MemorandaMemoryService(store)
    pages = [f"page {number} of the diary" for number in range(20)]
    await service.add_session_to_memory(session_of(*pages, "the torn page of the diary"))

    found = await texts_found(service, "diary torn page")
    assert found[0] == "the torn page of the diary"
    assert len(found) <= 10


async def test_a_memory_is_not_changed_through_events_or_results(store: Store) -> None:
    service, session = MemorandaMemoryService(store), session_of("My bike is blue.")
    await service.add_session_to_memory(session)

    session.events[0].content.parts[0].text = "My bike is red."
    response = await service.search_memory(**WHOSE, query="blue")
    response.memories[0].content.parts.clear()

    assert await texts_found(service, "blue") == ["My bike is blue."]
