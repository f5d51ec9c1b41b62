"""Sessions that leave out or fence what is not trusted."""

from __future__ import annotations

from typing import Any

import pytest

from memoranda.errors import InputError
from memoranda.items import MemoryItem
from memoranda.store import InMemoryStore
from memoranda_openai_agents import MemorandaSession

ITEMS: list[Any] = [
    {"role": "user", "content": "What colour is the sky?"},
    {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c1", "output": "PLANTED"},
    {"role": "assistant", "content": "Blue."},
]


class Quoting:
    """A fence for tests."""

    def apply(self, items: Any) -> list[MemoryItem]:
        quoted = {"content": "quoted", "payload": None, "payload_format": None}
        return [item.model_copy(update=quoted) if item.memory_type == "tool" else item for item in items]


async def test_what_is_trusted_less_is_left_out_with_its_call() -> None:
    store = InMemoryStore()
    await MemorandaSession("chat", store.scoped(user_id="ada")).add_items(ITEMS)

    trusted = MemorandaSession("chat", store.scoped(user_id="ada"), min_trust="agent")

    assert await trusted.get_items() == [ITEMS[0], ITEMS[3]]
    assert await MemorandaSession("chat", store.scoped(user_id="ada")).get_items() == ITEMS


async def test_a_fence_changes_what_is_read_and_not_what_is_stored() -> None:
    store = InMemoryStore()
    session = MemorandaSession("chat", store.scoped(user_id="ada"), fence=Quoting())
    await session.add_items(ITEMS)

    items: list[Any] = await session.get_items()

    assert [item.get("role", item.get("type")) for item in items] == [
        *("user", "function_call", "function_call_output", "assistant"),
    ]
    assert items[2]["output"] == "quoted"
    assert await store.count(query="PLANTED") == 1


async def test_a_handle_says_how_far_a_session_is_trusted() -> None:
    store = InMemoryStore()
    await MemorandaSession("chat", store.scoped(user_id="ada", trust="external")).add_items(ITEMS)

    assert {item.trust async for item in store.scan()} == {"external"}


def test_a_wrong_trust_is_an_input_error() -> None:
    with pytest.raises(InputError, match="Unknown min_trust"):
        MemorandaSession("chat", InMemoryStore(), min_trust="everyone")
