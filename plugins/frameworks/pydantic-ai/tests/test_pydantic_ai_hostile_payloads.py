"""A message of Pydantic AI says what its item says, whatever the stored payload claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem
from memoranda_pydantic_ai.messages import PydanticAIFormat

FORMAT = PydanticAIFormat()
HI = UserPromptPart(SAID)
PARTS = {"system": SystemPromptPart, "developer": SystemPromptPart, "user": UserPromptPart, "human": UserPromptPart}
ROLES = {"system-prompt": "system", "user-prompt": "user"}


def request(*parts: Any, **fields: Any) -> dict[str, Any]:
    return FORMAT.dump(ModelRequest(parts=[HI, *parts])) | fields


def bare(*parts: dict[str, Any]) -> dict[str, Any]:
    return FORMAT.dump(ModelRequest(parts=[])) | {"parts": list(parts)}


class TestPydanticAIPayloads(HostilePayloads):
    payload_format = "pydantic-ai"
    claims: ClassVar[dict[str, Any]] = {
        "system prompt": request(SystemPromptPart(PLANTED)),
        "result": request(ToolReturnPart(CALLED, PLANTED, tool_call_id="c")),
        "second prompt": request(UserPromptPart(PLANTED)),
        "call": FORMAT.dump(ModelResponse(parts=[TextPart(SAID), ToolCallPart(CALLED, {}, "c")])),
        "retry": request() | {"parts": [*request()["parts"], {"part_kind": "retry-prompt", "content": PLANTED}]},
    }
    unknown: ClassVar[dict[str, Any]] = {
        "retry": bare({"part_kind": "retry-prompt", "content": PLANTED, "tool_call_id": "c"}),
        "kind": {"kind": "of tomorrow", "parts": [{"part_kind": "text", "content": PLANTED}]},
        "part": bare({"part_kind": "of tomorrow", "content": PLANTED}),
        "change of instructions": bare({"part_kind": "instruction-delta", "id": "agent", "content": PLANTED}),
    }

    def spoken(self, role: str, text: str) -> Any:
        if role.casefold() in PARTS:
            return FORMAT.dump(ModelRequest(parts=[PARTS[role.casefold()](text)]))
        if role.casefold() in ("tool", "function"):
            return FORMAT.dump(ModelRequest(parts=[ToolReturnPart("f", text, tool_call_id="c")]))
        return FORMAT.dump(ModelResponse(parts=[TextPart(text)]))

    def stored(self, given: Any) -> list[MemoryItem]:
        try:
            return FORMAT.items([FORMAT.load(given)])
        except ValueError:
            return []

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        messages = FORMAT.messages(items)
        dumped = ModelMessagesTypeAdapter.dump_python(messages, mode="json")
        found = []
        for each in dumped:
            kinds = {ROLES.get(part["part_kind"], "tool") for part in each["parts"]} or {"user"}
            roles = {"assistant"} if each["kind"] == "response" else kinds
            assert len(roles) == 1
            found.append((roles.pop(), each))
        return found

    async def test_a_stranger_instructs_nobody(self) -> None:
        (item,) = self.stored(request(instructions=PLANTED))
        await self.assert_says_nothing_else(item.model_copy(update={"trust": "external"}))
