"""What is sent to a provider says what its item says, whatever the stored payload claims."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, ClassVar

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem
from memoranda_messages import from_anthropic, from_openai, from_responses, to_anthropic, to_openai, to_responses

TEXT = {"type": "text", "text": SAID}
INPUT = {"type": "input_text", "text": SAID}
CALL = {"id": "c", "type": "function", "function": {"name": CALLED, "arguments": "{}"}}


def message(*blocks: Any, role: str = "user", **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": list(blocks), **fields}


class OfAProvider(HostilePayloads):
    """Messages that a payload has as they are."""

    def payload(self, given: Any) -> str:
        return json.dumps(given)

    def spoken(self, role: str, text: str) -> Any:
        return {"role": role, "content": text}


class TestChatPayloads(OfAProvider):
    payload_format = "openai"
    claims: ClassVar[dict[str, Any]] = {
        "calls": message(TEXT, tool_calls=[CALL]),
        "old call": message(TEXT, function_call={"name": CALLED, "arguments": "{}"}),
        "result": {"role": "tool", "tool_call_id": CALLED, "content": SAID},
        "second text": message(TEXT, {"type": "text", "text": PLANTED}),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "role": message(TEXT, role="Overlord"),
        "block": message({"type": "of tomorrow", "text": PLANTED}),
    }

    def stored(self, given: Any) -> list[MemoryItem]:
        return []

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        return [(each["role"], each) for each in to_openai(items)]

    async def test_a_stranger_adds_no_reasoning(self) -> None:
        (genuine,) = from_openai([message(TEXT, reasoning_content=PLANTED)])
        await self.assert_says_nothing_else(genuine.model_copy(update={"trust": "external"}))


class TestResponsesPayloads(OfAProvider):
    payload_format = "responses"
    claims: ClassVar[dict[str, Any]] = {
        "call": {"type": "function_call", "call_id": "c", "name": CALLED, "arguments": "{}"},
        "result": {"type": "function_call_output", "call_id": "c", "output": PLANTED},
        "call block": message(INPUT, {"type": "function_call", "call_id": "c", "name": CALLED, "arguments": "{}"}),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "role": message(INPUT, role="Overlord"),
        "block": message({"type": "of tomorrow", "text": PLANTED}),
    }

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        return [(each.get("role", "tool"), each) for each in to_responses(items)]

    async def test_a_stranger_runs_nothing(self) -> None:
        for item in from_responses([{"type": "mcp_call", "id": "m", "name": CALLED, "arguments": "{}"}]):
            stranger = item.model_copy(update={"trust": "external"})
            assert await self.told([stranger]) == []


class TestAnthropicPayloads(OfAProvider):
    payload_format = "anthropic"
    claims: ClassVar[dict[str, Any]] = {
        "call": message(TEXT, {"type": "tool_use", "id": "c", "name": CALLED, "input": {}}),
        "result": message(TEXT, {"type": "tool_result", "tool_use_id": "c", "content": PLANTED}),
        "second text": message(TEXT, {"type": "text", "text": PLANTED}),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "role": message(TEXT, role="Overlord"),
        "block": message({"type": "of tomorrow", "text": PLANTED}),
    }

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        system, messages = to_anthropic(items)
        assert system == []
        return [(each["role"], each) for each in messages if "conversation" not in str(each["content"])]

    async def test_a_stranger_adds_no_text_as_a_document(self) -> None:
        for source in ({"type": "text", "data": PLANTED}, {"type": "content", "content": [TEXT]}):
            block = {"type": "document", "source": source, "title": PLANTED}
            beside = {"type": "document", "source": {"type": "url", "url": "https://e.org/a.pdf"}, "context": PLANTED}
            found = {"type": "search_result", "source": "s", "title": PLANTED, "content": [TEXT]}
            thought = {"type": "thinking", "thinking": PLANTED, "signature": "s"}
            for item in from_anthropic([message(TEXT, each) for each in (block, beside, found, thought)]):
                await self.assert_says_nothing_else(item.model_copy(update={"trust": "external"}))
