"""Spaces as owners: which names they have, who cannot have them, and what their operator's handle reaches."""

from __future__ import annotations

import pytest

from memoranda import sync
from memoranda.errors import InputError
from memoranda.items import HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda.store.backend import Query, best_of, items_where
from memoranda.store.filters import Filter
from memoranda.store.owners import DIRECTORY, checked_spaces, is_reserved, space_of, space_owner

LOOK_ALIKES = [
    "space:acme",
    "SPACE:acme",
    "Space:acme",
    " space:acme",
    "s pace:acme",
    "\u200bspace:acme",
    "sp\u00adace:acme",
    "ｓｐａｃｅ：acme",
    "ѕрасе:acme",
    "spaϲe:acme",
    "spáce:acme",
    "space∶acme",
    "spaceː",
    "ꜱᴘᴀᴄᴇ:acme",
    "Տpace:acme",
    "Ꮪpace:acme",
    "ꓢꓑꓮꓚꓰ:acme",
    "s⍴⍺ce:acme",
    "spaceꓽacme",
    "spaceःacme",
    "space᠃acme",
    "space︰acme",
    " " * 70 + "space:acme",
    "s" + "\u200b" * 70 + "pace:acme",
    DIRECTORY,
]


@pytest.mark.parametrize("name", LOOK_ALIKES)
async def test_no_user_has_a_name_that_looks_like_a_space(name: str) -> None:
    store = InMemoryStore()

    with pytest.raises(InputError, match="space"):
        store.scoped(user_id=name)
    with pytest.raises(InputError, match="space"):
        await store.scoped(agent_id="planner").add(MemoryItem(content="planted", metadata=MemoryMetadata(user_id=name)))

    assert await store.count() == 0


@pytest.mark.parametrize("name", ["ada", "spaceman", "my-space:1", "spaces", "inner space", "espace:1", "Ωσπάcε"])
def test_other_users_keep_their_names(name: str) -> None:
    assert not is_reserved(name)
    InMemoryStore().scoped(user_id=name)


@pytest.mark.parametrize(
    "name",
    ["", "Acme", "acmе", "acme support", "-acme", "acme-", "acme/x", "space:acme", "a" * 65, "ａcme", "acme\n", 3],
)
def test_a_space_has_a_name_that_nothing_looks_like(name: str) -> None:
    with pytest.raises(InputError, match="cannot be the name of a space"):
        InMemoryStore().space(name)


def test_the_owner_of_a_space_tells_its_name() -> None:
    item = MemoryItem(content="x", metadata=MemoryMetadata(user_id=space_owner("acme.support_1")))

    assert space_of(item) == space_of(item.metadata) == "acme.support_1"
    assert space_of(MemoryItem(content="x")) is None
    assert space_of(MemoryMetadata(user_id="ada")) is None
    assert space_of(MemoryMetadata(user_id=DIRECTORY)) is None


async def test_the_operator_reaches_a_space_and_a_user_of_its_name_does_not() -> None:
    store = InMemoryStore()
    space = store.space("ada")

    await store.add(HumanMemory(id="1", content="Refunds take thirty days."), space="ada")
    await space.add_many([HumanMemory(id="2", content="The office is closed on Friday.")])
    await store.add_many([HumanMemory(id="3", content="Ask Vera.")], space="ada")

    assert {item.id for item in await space.search()} == {"1", "2", "3"}
    assert await store.scoped(user_id="ada").search() == []
    assert [owner.value async for owner in store.owners()] == ["space:ada"]
    with pytest.raises(InputError):
        await store.scoped(user_id="ada").search(metadata=MemoryMetadata(user_id="space:ada"))


def test_only_what_is_not_about_one_conversation_reaches_spaces() -> None:
    """A query says how far it reaches; whoever writes a new one gets the narrow one."""
    everything = Filter()

    assert Query[MemoryItem]().reach == items_where(everything).reach == "own"
    assert best_of("tea", everything, 3, "text").reach == "granted"


def test_which_spaces_a_handle_reaches_is_checked_at_once() -> None:
    assert checked_spaces("granted") == "granted"
    assert checked_spaces(["b", "a", "b"]) == ("b", "a")
    for wrong in ("acme", ["Acme"], 3, [None]):
        with pytest.raises(InputError):
            checked_spaces(wrong)


def test_a_handle_without_spaces_is_its_own() -> None:
    store = InMemoryStore()
    handle = store.scoped(user_id="ada")

    assert store.own is store
    assert handle.own is handle
    assert handle.spaces is None


def test_the_blocking_store_has_spaces_too() -> None:
    with sync.open("memory://") as store:
        store.space("acme").add(HumanMemory(content="Refunds take thirty days."))
        store.add(HumanMemory(content="Ask Vera."), space="acme")

        assert len(store.space("acme").search()) == 2
