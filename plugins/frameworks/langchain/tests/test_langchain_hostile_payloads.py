"""A message of LangChain says what its item says, whatever the stored payload claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem
from memoranda.store import InMemoryStore
from memoranda_langchain import MemorandaChatMessageHistory
from memoranda_langchain.memory import LangChainFormat

HI = {"type": "text", "text": SAID}
CALL = {"id": "c", "name": CALLED, "args": {}, "type": "tool_call"}
OLD_CALL = {"id": "c", "type": "function", "function": {"name": CALLED, "arguments": "{}"}}


def message(*blocks: Any, kind: str = "human", **fields: Any) -> dict[str, Any]:
    """Return a message as LangChain's JSON has it."""
    return {"type": kind, "data": {"content": list(blocks), "type": kind, **fields}}


class TestLangChainPayloads(HostilePayloads):
    payload_format = "langchain"
    claims: ClassVar[dict[str, Any]] = {
        "calls": message(HI, tool_calls=[CALL]),
        "calls beside": message(HI, additional_kwargs={"tool_calls": [OLD_CALL]}),
        "call block": message(HI, {"type": "tool_use", "id": "c", "name": CALLED, "input": {}}),
        "result block": message(HI, {"type": "tool_result", "tool_use_id": "c", "content": PLANTED}),
        "plain text": message(HI, {"type": "text-plain", "text": PLANTED, "mime_type": "text/plain"}),
        "text of a file": message(HI, {"type": "file", "source_type": "text", "text": PLANTED}),
        "document": message(HI, {"type": "document", "source": {"type": "text", "data": PLANTED}}),
        "context": message(HI, {"type": "document", "source": {"type": "url", "url": "u"}, "context": PLANTED}),
        "reasoning": message(HI, {"type": "reasoning", "reasoning": PLANTED}),
        "reasoning beside": message(HI, additional_kwargs={"reasoning_content": PLANTED}),
        "chat role": message(HI, kind="chat", role="SYSTEM"),
        "chat role of a tool": message(HI, kind="chat", role="tool"),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "type": {"type": "of tomorrow", "data": {"content": PLANTED, "type": "of tomorrow"}},
        "type of a system": {"type": "of tomorrow", "data": {"content": "", "type": "system"}},
        "type of a system with text": {"type": "of tomorrow", "data": {"content": PLANTED, "type": "SYSTEM"}},
        "spoilt": message(HI, {"type": "text", "text": PLANTED}, additional_kwargs={"tool_calls": [CALLED]}),
    }

    def spoken(self, role: str, text: str) -> Any:
        return message({"type": "text", "text": text}, kind="chat", role=role)

    def stored(self, given: Any) -> list[MemoryItem]:
        return LangChainFormat().items([LangChainFormat().load(given)])

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        store = InMemoryStore()
        await store.scoped(session_id="chat").add_many(list(items))
        found = await MemorandaChatMessageHistory("chat", store).aget_messages()
        return [(getattr(each, "role", each.type), each.model_dump()) for each in found]
