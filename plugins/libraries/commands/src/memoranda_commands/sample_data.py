"""The conversations of ``memoranda demo``, which the inspector shows as well."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory

_EARLIER = {
    "winter": (
        150,
        [("I live in Oslo.", "A fine place for skiing."), ("I'm allergic to peanuts.", "I will remember.")],
    ),
    "spring": (60, [("I moved to Bergen last week!", "Congratulations. Bring an umbrella.")]),
}
"""Sessions of the demo's user: how many days before the conversation they were, and what was said."""


def earlier_sessions(user_id: str, start: datetime) -> list[MemoryItem]:
    """Return what the demo's user said in sessions before the conversation; one thing has changed between them."""
    items: list[MemoryItem] = []
    for session, (days, said) in _EARLIER.items():
        owner = MemoryMetadata(user_id=user_id, session_id=session)
        items += exchanges(owner, start - timedelta(days=days), said)
    return items


def exchanges(owner: MemoryMetadata, start: datetime, said: Iterable[tuple[str, str]]) -> list[MemoryItem]:
    """Return what a user said and what was answered, a minute for each."""
    items: list[MemoryItem] = []
    for minute, (question, answer) in enumerate(said):
        at = (start + timedelta(minutes=minute)).isoformat()
        items.append(HumanMemory(content=question, metadata=owner, created_at=at))
        items.append(AIMemory(content=answer, metadata=owner, created_at=at))
    return items


def sample_conversation(owner: MemoryMetadata, start: datetime) -> list[MemoryItem]:
    """Return the demo's conversation: five rounds, parallel calls, a failed one, and one that was never answered."""

    def at(minute: int) -> dict[str, Any]:
        return {"metadata": owner, "created_at": (start + timedelta(minutes=minute)).isoformat()}

    def call(call_id: str, name: str, **arguments: Any) -> dict[str, Any]:
        return {"id": call_id, "name": name, "arguments": arguments}

    def result(call_id: str, name: str, content: str, minute: int, *, failed: bool = False) -> ToolMemory:
        return ToolMemory(content=content, tool_call_id=call_id, tool_name=name, is_error=failed, **at(minute))

    return [
        SystemMemory(content="You are a travel assistant. Never book without asking.", **at(0)),
        HumanMemory(content="Hi, I'm Ada. I like a window seat, and I eat no meat.", **at(0)),
        AIMemory(content="Noted: window seat, vegetarian meals.", **at(0)),
        HumanMemory(content="How is the weekend in Lisbon, and in Porto?", **at(1)),
        AIMemory(
            content="",
            tool_calls=[call("w1", "weather", city="Lisbon"), call("w2", "weather", city="Porto")],
            **at(1),
        ),
        result("w1", "weather", "Lisbon: rain, 14 °C", 1),
        result("w2", "weather", "Porto: sunny, 19 °C", 1),
        AIMemory(content="Porto: 19 °C and sun, while Lisbon gets rain.", **at(1)),
        HumanMemory(content="Then Porto. Hold the 9:12 train for me.", **at(2)),
        AIMemory(content="", tool_calls=[call("t1", "hold_train", train="9:12", to="Porto")], **at(2)),
        result("t1", "hold_train", "seat map unavailable", 2, failed=True),
        AIMemory(content="The railway does not answer. Shall I try again?", **at(2)),
        HumanMemory(content="Yes, and mail me the ticket.", **at(3)),
        # The process was killed here: the mail's result never came.
        AIMemory(
            content="",
            tool_calls=[call("t2", "hold_train", train="9:12", to="Porto"), call("m1", "send_mail", to="ada")],
            **at(3),
        ),
        result("t2", "hold_train", "held: coach 4, seat 21, window", 3),
        HumanMemory(content="Are you still there? Did it work?", **at(4)),
    ]
