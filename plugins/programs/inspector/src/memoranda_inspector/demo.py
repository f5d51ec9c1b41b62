"""A conversation to look at without any store, and a model that needs no service."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda_commands.sample_data import earlier_sessions, sample_conversation
from memoranda_summary import SummaryConfig, compact

TRIP = MemoryMetadata(user_id="ada", session_id="trip", agent_id="travel")
KITCHEN = MemoryMetadata(user_id="ada", session_id="kitchen", agent_id="cook")
OTHER = MemoryMetadata(user_id="grace", session_id="harbour", agent_id="travel")


class DemoModel:
    """A summarizer for the demo: it repeats the first words of each human message."""

    async def summarize(self, prompt: str) -> str:
        """Return a summary of the transcript in a prompt."""
        lines = re.findall(r"^\[[^\]]*\] human: (.+)$", prompt, re.MULTILINE)
        return "Asked so far: " + " ".join(line[:80] for line in lines) if lines else "Nothing was asked so far."


async def fill(store: Store) -> None:
    """Put the demo's conversations into a store."""
    start = datetime.now(UTC) - timedelta(minutes=40)
    await store.add_many(earlier_sessions("ada", start))
    await store.add_many(sample_conversation(TRIP, start))
    await store.add_many(_kitchen(start - timedelta(days=1)))
    await store.add_many([_human(OTHER, start, "Which pier does the night ferry leave from?")])
    config = SummaryConfig(templates=("notes",), prompts={"notes": "Say what was asked.\n{content}"}, keep_recent=2)
    await compact(store, KITCHEN, config, DemoModel(), force=True)


def _human(owner: MemoryMetadata, at: datetime, content: str) -> HumanMemory:
    return HumanMemory(content=content, metadata=owner, created_at=at.isoformat())


def _kitchen(start: datetime) -> list[MemoryItem]:
    """Return a conversation about food, most of which the demo summarizes."""
    exchanges = [
        ("What can I cook without meat tonight?", "A risotto with peas, if you have rice."),
        ("I have rice, but no peas.", "Then take the mushrooms; fry them first."),
        ("How long does the rice take?", "Eighteen minutes, with a ladle of stock at a time."),
        ("And which wine goes with it?", "A dry white one, the same that goes into the pan."),
    ]
    items: list[MemoryItem] = []
    for minute, (question, answer) in enumerate(exchanges):
        at = start + timedelta(minutes=minute)
        items.append(_human(KITCHEN, at, question))
        items.append(AIMemory(content=answer, metadata=KITCHEN, created_at=at.isoformat()))
    return items
