"""What a prompt shows of facts: short lines of what holds, and a remark beside what is no longer true."""

from __future__ import annotations

from dataclasses import replace

import pytest

import memoranda
from memoranda import HumanMemory
from memoranda.store import InMemoryStore
from memoranda_facts import Candidate, Facts
from memoranda_facts.extraction import everyday_schema
from memoranda_facts.records import MANUAL


@pytest.fixture
async def facts() -> Facts:
    """What is known of Nora, whom her user id names."""
    return Facts(InMemoryStore().scoped(user_id="nora"), schema=everyday_schema())


async def test_a_line_has_no_id_and_no_user_name_and_shows_the_value_before(facts: Facts) -> None:
    await facts.set("Nora", "lives_in", "Lisbon", valid_from="2026-01", sources="manual")
    await facts.set("nora", "lives_in", "Porto", valid_from="2026-03", sources="manual")
    await facts.set("nora", "job", "nurse", valid_from="..", sources="manual")
    assert await facts.profile_lines() == ["lives in Porto (since 2026-03; before: Lisbon)", "job: nurse"]


async def test_what_ended_says_so(facts: Facts) -> None:
    await facts.set("nora", "diet", "vegetarian", valid_from="2026-01", sources="manual")
    await facts.set("nora", "pet", "Miso", valid_from="..", sources="manual", qualifiers={"kind": "cat"})
    await facts.set("nora", "pet", "Rolo", valid_from="..", sources="manual", qualifiers={"kind": "dog"})
    await facts.end("nora", "diet", "vegetarian", at="2026-06", sources="manual")
    await facts.end("nora", "pet", "Miso", at="2026-06", sources="manual")
    assert await facts.profile_lines() == [
        "diet: no longer vegetarian (since 2026-06)",
        "pet: Rolo (dog)",
        "pet: no longer Miso (cat) (since 2026-06)",
    ]


async def test_others_come_after_the_user_and_by_name(facts: Facts) -> None:
    await facts.set("Jonas", "lives_in", "Vienna", valid_from="..", sources="manual")
    await facts.set("nora's mother", "likes", "gardening", valid_from="..", sources="manual")
    await facts.set("nora", "name", "Nora Lindt", valid_from="..", sources="manual")
    await facts.set("Nora Lindt", "likes", "jazz", valid_from="..", sources="manual")
    assert await facts.profile_lines() == [
        "name: Nora Lindt",
        "likes jazz",
        "Jonas: lives in Vienna",
        "mother: likes gardening",
    ]


async def test_a_new_fact_leaves_the_other_lines_in_their_place(facts: Facts) -> None:
    for thing in ("jazz", "rain", "chess"):
        await facts.set("nora", "likes", thing, valid_from="..", sources="manual")
    before = await facts.profile_lines()
    await facts.set("nora", "likes", "tea", valid_from="..", sources="manual")
    assert (await facts.profile_lines())[:3] == before


async def test_a_small_budget_keeps_the_users_own_pinned_facts(facts: Facts) -> None:
    await facts.set("Jonas", "lives_in", "Vienna", valid_from="..", sources="manual")
    await facts.set("nora", "likes", "jazz", valid_from="..", sources="manual")
    await facts.set("nora", "allergic_to", "peanuts", valid_from="..", sources="manual")
    assert await facts.profile_lines(tokens=6) == ["allergic to peanuts"]
    assert await facts.profile_lines(tokens=0) == []


async def test_a_stranger_has_no_line(facts: Facts) -> None:
    await facts.set("nora", "lives_in", "Porto", sources="manual", trust="external")
    assert await facts.profile_lines() == []


async def test_a_disputed_fact_says_so(facts: Facts) -> None:
    await facts.set("nora", "lives_in", "Porto", valid_from="2026-01", sources="manual")
    await facts.set("nora", "lives_in", "Faro", valid_from="2026-02", sources="manual", trust="agent")
    assert await facts.profile_lines() == [
        "lives in Porto (since 2026-01; disputed)",
        "lives in Faro (since 2026-02; disputed)",
    ]


async def test_an_item_says_what_is_no_longer_true_and_what_is(facts: Facts) -> None:
    home, diet, other = (HumanMemory(content=text) for text in ("I live in Lisbon", "I'm vegetarian", "I like jazz"))
    for item in (home, diet, other):
        await facts.store.add(item)
    await facts.set("nora", "lives_in", "Lisbon", valid_from="2026-01", sources=[home])
    await facts.set("nora", "diet", "vegetarian", valid_from="2026-01", sources=[diet])
    await facts.set("nora", "likes", "jazz", valid_from="2026-01", sources=[other])
    await facts.set("nora", "lives_in", "Porto", valid_from="2026-03", sources="manual")
    await facts.end("nora", "diet", at="2026-06", sources="manual")
    found = await facts.outdated([home.id, diet.id, other.id, "unknown"])
    assert {item_id: [str(each) for each in several] for item_id, several in found.items()} == {
        home.id: ["no longer true: Porto since 2026-03"],
        diet.id: ["no longer true since 2026-06: diet vegetarian"],
    }


async def test_what_was_corrected_was_never_true(facts: Facts) -> None:
    item = HumanMemory(content="My birthday is March 5th")
    await facts.store.add(item)
    await facts.set("nora", "birthday", "03-05", valid_from="..", sources=[item])
    (fact,) = await facts.current()
    await facts.correct(fact, "03-06", sources="manual")
    ((found,),) = (await facts.outdated([item.id])).values()
    assert (str(found), found.state) == ("corrected: 03-06", "retracted")


async def test_what_holds_again_is_not_outdated(facts: Facts) -> None:
    item = HumanMemory(content="I live in Lisbon")
    await facts.store.add(item)
    await facts.set("nora", "lives_in", "Lisbon", valid_from="2026-01", sources=[item])
    await facts.set("nora", "lives_in", "Porto", valid_from="2026-03", sources="manual")
    await facts.set("nora", "lives_in", "Lisbon", valid_from="2026-05", sources="manual")
    assert await facts.outdated([item.id]) == {}


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("I smoke", "smokes"),
        ("I go running every morning", "goes running"),
        ("I do yoga", "does yoga"),
        ("I'm learning Italian", "is learning Italian"),
        ("We are planning a trip to Peru", "plans a trip to Peru"),
        ("I don't eat pork", "does not eat pork"),
        ("I have two cats, Pixel and Miso", "pet: Pixel (cat)"),
        ("Ich habe zwei Katzen, Pixel und Miso", "pet: Pixel (Katze)"),
        ("My driving test is on Friday", "driving test: Friday (said 2026-01-10)"),
    ],
)
async def test_a_line_reads_as_people_say_it(said: str, line: str) -> None:
    async with memoranda.open("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content=said, created_at="2026-01-10T10:00:00Z"))
        assert (await nora.known(tokens=200))[0].startswith(line)


async def test_who_smoked_again_and_stopped_does_not_smoke() -> None:
    async with memoranda.open("memory://", facts="rules") as store:
        nora = store.scoped(user_id="nora")
        await nora.add(HumanMemory(content="I smoke again last month but now stopped for good"))
        assert await nora.known(tokens=200) == []


async def test_what_is_not_denied_any_more_is_said_without_two_denials(facts: Facts) -> None:
    await facts.set("nora", "does_not_eat", "carne", valid_from="..", sources="manual")
    await facts.set("nora", "does_not_watch", "series", valid_from="..", sources="manual")
    await facts.end("nora", "does_not_eat", "carne", at="2026-06", sources="manual")
    await facts.end("nora", "does_not_watch", "series", at="2026-07", sources="manual")
    assert await facts.profile_lines() == [
        "eats carne again (since 2026-06)",
        "watches series again (since 2026-07)",
    ]


async def test_an_assistants_doubt_changes_nothing_where_only_the_user_counts(facts: Facts) -> None:
    await facts.set("nora", "allergic_to", "peanuts", valid_from="2026-01", sources="manual", trust="user")
    doubt = Candidate("nora", "allergic_to", "peanuts", "end", valid_to="2026-02", sources=(MANUAL,), doubtful=True)
    await facts.apply([doubt], trust="agent")
    assert await facts.profile_lines(min_trust="user") == ["allergic to peanuts (since 2026-01)"]
    await facts.apply([replace(doubt, valid_to="2026-03")], trust="user")
    assert await facts.profile_lines(min_trust="user") == ["allergic to peanuts (since 2026-01; disputed)"]
