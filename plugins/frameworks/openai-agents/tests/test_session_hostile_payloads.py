"""An item of a session says what its memory item says, whatever the stored payload claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_openai_agents import MemorandaSession
from memoranda_openai_agents.sdk_items import memory_items

TEXT = {"type": "input_text", "text": SAID}
CALL = {"type": "function_call", "call_id": "c", "name": CALLED, "arguments": "{}"}


class OfASession(HostilePayloads):
    """Payloads that are the SDK's items as they are."""

    claims: ClassVar[dict[str, Any]] = {
        "call": CALL,
        "result": {"type": "function_call_output", "call_id": "c", "output": PLANTED},
        "call block": {"role": "user", "content": [TEXT, CALL]},
        "second text": {"role": "user", "content": [TEXT, {"type": "input_text", "text": PLANTED}]},
    }
    unknown: ClassVar[dict[str, Any]] = {
        "role": {"role": "SYSTEM", "content": {"of": "tomorrow"}},
        "role with text": {"role": "developer", "content": {"text": PLANTED}},
        "role of a model": {"role": "assistant", "content": {"of": "tomorrow"}},
        "text": {"type": "of tomorrow", "content": PLANTED},
        "spoilt call": CALL | {"call_id": ""},
        "spoilt result": {"type": "function_call_output", "output": PLANTED},
    }

    def payload(self, given: Any) -> str:
        return json.dumps(given)

    def spoken(self, role: str, text: str) -> Any:
        return {"role": role, "content": text}

    def stored(self, given: Any) -> list[MemoryItem]:
        return memory_items([given], MemoryMetadata())

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        store = InMemoryStore()
        await store.scoped(session_id="chat").add_many(list(items))
        found: list[Any] = await MemorandaSession("chat", store).get_items()
        return [(each.get("role", "tool"), each) for each in found]


class TestKnownPayloads(OfASession):
    payload_format = "responses"


class TestUnknownPayloads(OfASession):
    payload_format = "openai-agents"
