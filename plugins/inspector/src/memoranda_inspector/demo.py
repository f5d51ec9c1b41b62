"""A conversation to look at without any store, and a model that needs no service."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, SystemMemory, ToolMemory
from memoranda.store import BaseStore
from memoranda_summary import SummaryConfig, compact

TRIP = MemoryMetadata(user_id="ada", session_id="trip", agent_id="travel")
KITCHEN = MemoryMetadata(user_id="ada", session_id="kitchen", agent_id="cook")
OTHER = MemoryMetadata(user_id="grace", session_id="harbour", agent_id="travel")


class DemoModel:
    """A summarizer for the demo: it repeats the first words of what each person said."""

    async def summarize(self, prompt: str) -> str:
        """Return a summary of the transcript in a prompt."""
        said = re.findall(r"^\[[^\]]*\] human: (.+)$", prompt, re.MULTILINE)
        return "Asked so far: " + " ".join(line[:80] for line in said) if said else "Nothing was asked so far."


async def fill(store: BaseStore) -> None:
    """Put the demo's conversations into a store."""
    start = datetime.now(UTC) - timedelta(minutes=40)
    await store.add_many(_trip(start))
    await store.add_many(_kitchen(start - timedelta(days=1)))
    await store.add_many([_human(OTHER, start, "Which pier does the night ferry leave from?")])
    config = SummaryConfig(templates=("notes",), prompts={"notes": "Say what was asked.\n{content}"}, keep_recent=2)
    await compact(store, KITCHEN, config, DemoModel(), force=True)


def _human(owner: MemoryMetadata, at: datetime, content: str) -> HumanMemory:
    return HumanMemory(content=content, metadata=owner, created_at=at.isoformat())


def _trip(start: datetime) -> list[MemoryItem]:
    """Return five rounds, calls in parallel, a failed one, and one that was never answered."""

    def at(minute: int) -> dict[str, Any]:
        return {"metadata": TRIP, "created_at": (start + timedelta(minutes=minute)).isoformat()}

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
            content="", tool_calls=[call("w1", "weather", city="Lisbon"), call("w2", "weather", city="Porto")], **at(1)
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


def _kitchen(start: datetime) -> list[MemoryItem]:
    """Return a conversation about food, most of which the demo summarizes."""
    said = [
        ("What can I cook without meat tonight?", "A risotto with peas, if you have rice."),
        ("I have rice, but no peas.", "Then take the mushrooms; fry them first."),
        ("How long does the rice take?", "Eighteen minutes, with a ladle of stock at a time."),
        ("And which wine goes with it?", "A dry white one, the same that goes into the pan."),
    ]
    items: list[MemoryItem] = []
    for minute, (question, answer) in enumerate(said):
        at = start + timedelta(minutes=minute)
        items.append(_human(KITCHEN, at, question))
        items.append(AIMemory(content=answer, metadata=KITCHEN, created_at=at.isoformat()))
    return items
