"""Whom an item belongs to stands in its metadata, and nowhere else."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, InputError, MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore, load_item

NAMES = sorted(MemoryMetadata.model_fields)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("cls", [MemoryItem, HumanMemory, AIMemory])
def test_a_name_of_the_metadata_among_the_fields_is_refused(cls: type[MemoryItem], name: str) -> None:
    with pytest.raises(InputError, match=rf"metadata=MemoryMetadata\({name}=…\)") as refused:
        cls(content="x", **{name: "Lovelace"})

    assert refused.value.field == name
    assert "Lovelace" not in str(refused.value)


@pytest.mark.parametrize("make", [load_item, HumanMemory.model_validate])
def test_so_is_one_in_an_object_that_is_read(make: Any) -> None:
    with pytest.raises(ValueError, match="belongs to the metadata"):
        make({"memory_type": "human", "content": "x", "user_id": "Lovelace"})


def test_so_is_one_that_is_assigned_later() -> None:
    item = HumanMemory(content="x")

    with pytest.raises(InputError, match="belongs to the metadata"):
        item.user_id = "ada"


async def test_so_is_one_that_came_past_the_checks_when_it_is_stored() -> None:
    store = InMemoryStore()

    with pytest.raises(InputError, match="belongs to the metadata"):
        await store.add(HumanMemory(content="x").model_copy(update={"user_id": "ada"}))

    assert await store.count() == 0


def test_so_is_a_class_that_has_one() -> None:
    with pytest.raises(InputError, match="belongs to the metadata"):

        class Task(MemoryItem):
            task_id: str = ""
