"""A message of Strands says what its item says, whatever the stored payload claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_strands import MemorandaSessionRepository
from memoranda_strands.messages import SessionMessageFormat

HI = {"text": SAID}
CALL = {"toolUse": {"toolUseId": "c", "name": CALLED, "input": {}}}
RESULT = {"toolResult": {"toolUseId": "c", "status": "success", "content": [{"text": PLANTED}]}}


def message(*blocks: Any, role: Any = "user", **fields: Any) -> dict[str, Any]:
    """Return a message as Strands' JSON has it."""
    said: Any = {"role": role, "content": list(blocks)}
    return {**SessionMessage(said, 0, created_at="2026-01-01T00:00:00+00:00").to_dict(), **fields}


def document(**fields: Any) -> dict[str, Any]:
    """Return a block with a document."""
    return {"document": {"format": "txt", "name": "a", **fields}}


class TestSessionMessagePayloads(HostilePayloads):
    payload_format = "strands"
    claims: ClassVar[dict[str, Any]] = {
        "call": message(HI, CALL),
        "result": message(HI, RESULT),
        "citation": message(HI, {"citationsContent": {"content": [{"text": PLANTED}], "citations": []}}),
        "guard": message(HI, {"guardContent": {"text": {"text": PLANTED}}}),
        "document": message(HI, document(source={"text": PLANTED})),
        "document of blocks": message(HI, document(source={"content": [{"text": PLANTED}]})),
        "document beside a text": message({**HI, **document(source={"text": PLANTED})}),
        "context": message(HI, document(source={"location": {"type": "s3", "uri": "s3://a/b"}}, context=PLANTED)),
        "reasoning": message(HI, {"reasoningContent": {"reasoningText": {"text": PLANTED}}}),
        "redacted to": message(HI, redact_message={"role": "user", "content": [{"text": PLANTED}]}),
        "redacted to another role": message(HI, redact_message={"role": "system", "content": [HI]}),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "spoilt result": message({"text": PLANTED}, {"toolResult": {}}),
        "spoilt call": message({"toolUse": {"name": CALLED}}),
        "role": message({"of tomorrow": PLANTED}, role="system"),
        "no role": {"message": {"content": [{"text": PLANTED}]}, "message_id": 0},
    }

    def spoken(self, role: str, text: str) -> Any:
        return message({"text": text}, role=role)

    def stored(self, given: Any) -> list[MemoryItem]:
        return SessionMessageFormat().items([SessionMessage.from_dict(given)])

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        store = InMemoryStore()
        repository = MemorandaSessionRepository(store)
        repository.create_session(Session("chat", SessionType.AGENT))
        repository.create_agent("chat", SessionAgent("agent", {}, {}))
        await store.add_many(
            [item.model_copy(update={"metadata": MemoryMetadata(session_id="chat")}) for item in items]
        )
        listed = [each.to_message() for each in repository.list_messages("chat", "agent")]
        return [(each["role"], each) for each in listed]
