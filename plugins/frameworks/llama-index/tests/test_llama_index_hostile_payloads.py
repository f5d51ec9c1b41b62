"""A message of LlamaIndex says what its item says, whatever the stored payload claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest
from llama_index.core.base.llms.types import ChatMessage

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import AIMemory, MemoryItem
from memoranda.store import InMemoryStore
from memoranda_llama_index import MemorandaChatStore
from memoranda_llama_index.messages import LlamaIndexFormat

HI = {"block_type": "text", "text": SAID}
CALL = {"block_type": "tool_call", "tool_call_id": "c", "tool_name": CALLED, "tool_kwargs": {}}
OLD_CALL = {"id": "c", "type": "function", "function": {"name": CALLED, "arguments": "{}"}}


def message(*blocks: Any, role: str = "user", **beside: Any) -> dict[str, Any]:
    """Return a message as LlamaIndex's JSON has it."""
    return {"role": role, "blocks": list(blocks), "additional_kwargs": beside}


class TestChatMessagePayloads(HostilePayloads):
    payload_format = "llama-index"
    claims: ClassVar[dict[str, Any]] = {
        "call": message(HI, CALL),
        "calls beside": message(HI, tool_calls=[OLD_CALL]),
        "function beside": message(HI, function_call={"name": CALLED, "arguments": "{}"}),
        "result": message(HI, tool_call_id=CALLED),
        "thinking": message(HI, {"block_type": "thinking", "content": PLANTED}),
        "reasoning beside": message(HI, reasoning_content=PLANTED),
        "source": message(
            HI,
            {
                "block_type": "citable",
                "title": "a",
                "source": "b",
                "content": [{"block_type": "text", "text": PLANTED}],
            },
        ),
        "older text": {"role": "user", "content": PLANTED, "blocks": [HI]},
    }
    unknown: ClassVar[dict[str, Any]] = {
        "role": message({"block_type": "text", "text": PLANTED}, role="Overlord"),
        "block": message({"block_type": "of tomorrow", "text": PLANTED}),
        "spoilt call": message(CALL | {"tool_kwargs": None}),
    }

    def spoken(self, role: str, text: str) -> Any:
        return message({"block_type": "text", "text": text}, role=role)

    def stored(self, given: Any) -> list[MemoryItem]:
        try:
            return LlamaIndexFormat().items([LlamaIndexFormat().load(given)])
        except ValueError:
            return []

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        store = InMemoryStore()
        await store.scoped(session_id="chat").add_many(list(items))
        found = await MemorandaChatStore(store).get_messages("chat")
        return [(each.role.value, each.model_dump(mode="json")) for each in found]


@pytest.mark.parametrize(
    "spoilt", [{"tool_name": 5}, {"tool_name": None}, {"tool_call_id": 5}, {"tool_kwargs": [1]}, {"tool_kwargs": None}]
)
async def test_a_message_has_no_call_that_the_framework_could_not_have_made(spoilt: dict[str, Any]) -> None:
    block = {"block_type": "tool_call", "tool_call_id": "c", "tool_name": "look", "tool_kwargs": {}} | spoilt
    called = {"id": str(block["tool_call_id"]), "name": block["tool_name"], "arguments": block["tool_kwargs"]}
    item = AIMemory(content="", tool_calls=[called])
    item.payload = json.dumps({"message": {"role": "assistant", "additional_kwargs": {}, "blocks": [block]}})
    item.payload_format = LlamaIndexFormat.name

    (message,) = LlamaIndexFormat().messages([item])

    assert ChatMessage.model_validate(message.model_dump()) == message
