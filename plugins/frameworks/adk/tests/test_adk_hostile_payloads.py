"""An event says what its item says, whatever the stored payload claims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from adk_events import CHAT
from google.adk.events.event import Event
from google.genai import types

from adapter_kit.hostile_payloads import CALLED, PLANTED, SAID, HostilePayloads
from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import InMemoryStore
from memoranda_adk import MemorandaSessionService
from memoranda_adk.events import EventFormat

HI = {"text": SAID}
CALL = {"id": "c", "name": CALLED, "args": {}}


def event(*parts: Any, role: str | None = "user", author: str = "user", **fields: Any) -> dict[str, Any]:
    """Return an event as ADK's JSON has it."""
    content = {"content": {"role": role, "parts": list(parts)}} if parts else {}
    plain = Event(author=author).model_dump(mode="json", exclude_none=True)
    return {**plain, **content, **fields}


def compaction(role: str) -> dict[str, Any]:
    """Return what makes ADK show another content instead of the events of a time."""
    compacted = {"role": role, "parts": [{"text": PLANTED}]}
    return {"actions": {"compaction": {"start_timestamp": 0, "end_timestamp": 9e9, "compacted_content": compacted}}}


class TestEventPayloads(HostilePayloads):
    payload_format = "adk"
    claims: ClassVar[dict[str, Any]] = {
        "call": event(HI, {"function_call": CALL}),
        "call by its other name": event(HI, {"functionCall": CALL}),
        "result": event(HI, {"function_response": {"id": "c", "name": CALLED, "response": {"result": PLANTED}}}),
        "call of a server": event(HI, {"tool_call": {"id": "c", "args": {"of": CALLED}}}, role="model"),
        "thought": event(HI, {"text": PLANTED, "thought": True}),
        "compaction": event(HI, **compaction("user")),
        "compaction of a model": event(HI, **compaction("model")),
        "author": event(HI, author="helper"),
        "no role but an author": event(HI, role=None, author="helper"),
    }
    unknown: ClassVar[dict[str, Any]] = {
        "compaction": event(**compaction("user")),
        "compaction of a system": event(**compaction("system")),
        "transcription": event(output_transcription={"text": PLANTED, "finished": True}),
        "spoilt": event({"text": PLANTED}, timestamp="now"),
        "role": event({"executable_code": {"code": PLANTED, "language": "PYTHON"}}, role="system"),
    }

    def spoken(self, role: str, text: str) -> Any:
        return event({"text": text}, role=role)

    def stored(self, given: Any) -> list[MemoryItem]:
        try:
            return EventFormat("app").items([EventFormat("app").load(given)])
        except ValueError:
            return []

    async def told(self, items: Sequence[MemoryItem]) -> list[tuple[str, Any]]:
        store = InMemoryStore()
        service = MemorandaSessionService(store)
        await service.create_session(**CHAT)
        whose = MemoryMetadata(user_id=CHAT["user_id"], session_id=CHAT["session_id"])
        await store.add_many([item.model_copy(update={"metadata": whose}) for item in items])
        session = await service.get_session(**CHAT)
        assert session is not None
        found = []
        for one in session.events:
            assert one.author == "user"
            dumped = one.model_dump(mode="json", exclude_none=True)
            found.append(((one.content or types.Content()).role or "user", dumped))
        return found
