"""What stands in a prompt, how much of it a provider's cache can reuse, and what it takes to make.

    python bench/prompt.py [corpus.json] [--each 20] [--budgets 500,1000,2000,4000] [--plot FILE.svg]

``assemble`` makes the prompts. The first table has the part of the questions whose evidence stands in the prompt as a
whole, by token budget: every turn of a conversation is one item, and each question is asked in a new session. Beside
it stand two simple ways to fill the same budget: the best results of a search, and the newest turns.

The second is about one long conversation, question after question: the part of each prompt's characters that equals
the beginning of the prompt before. Providers bill what their cache reuses at a tenth to a half.

The third is the processor time of one call, for a user with 2,000 items in twenty sessions: with the caches warm,
after an item was added to another session, and where all items are one long session that goes on. The floor of each
store is one ranked search whose best results fill the same budget.

No data is part of this project. A corpus is a file that ``retrieval.py`` reads; without one, a conversation is
generated, whose figures only show that the benchmark works.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import re
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import cycle, takewhile
from operator import eq
from pathlib import Path
from typing import Any

from harness import run
from retrieval import conversations

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.tokens import estimate_tokens
from memoranda_context import assemble
from memoranda_messages import to_openai

BUDGETS = (500, 1_000, 2_000, 4_000)
REUSE_BUDGETS = (2_000, 4_000, 16_000)
LONGEST_CONVERSATION = 400
ITEMS, SESSIONS, CALLS = 2_000, 20, 30
ONE_SESSION = MemoryMetadata(user_id="talker", session_id="only")
TIMED_BUDGETS = (1_000, 2_000, 4_000)
STORES: Sequence[tuple[str, str, dict[str, Any]]] = (
    ("memory", "memory://", {}),
    ("sqlite", "sqlite:///{folder}/bench.db", {}),
    ("sqlite, facts", "sqlite:///{folder}/bench.db", {"facts": "rules"}),
)
SYSTEM = "You are helpful. " * 40
TOKENS_OF_AN_ENTRY = 12
"""What a date and a speaker cost beside a memory."""

CHARACTERS_COMPARED = 60
"""By how many of its first characters a turn is known in a prompt: a long one is shown in part."""

PLACES = ("Lisbon", "Porto", "Bergen", "Graz", "Leeds", "Turin", "Ghent", "Oslo")
THINGS = ("a bicycle", "a violin", "an allotment", "a red kayak", "an old Saab", "two hens", "a telescope", "a loom")
PASTIMES = ("The meeting ran late again", "It rained all morning", "The printer is broken", "Lunch was fine today")


@dataclass
class Evidence:
    """How often all evidence stood in a prompt of one budget, and what the prompts took."""

    assembled: list[bool] = field(default_factory=list)
    ranked: list[bool] = field(default_factory=list)
    newest: list[bool] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)

    def shares(self) -> dict[str, float]:
        found = {"assemble": self.assembled, "search": self.ranked, "newest turns": self.newest}
        return {name: statistics.fmean(values) for name, values in found.items()}


@dataclass(frozen=True)
class Cost:
    """The processor time of a prompt, in seconds, beside that of a search which fills the same budget."""

    store: str
    budget: int
    floor: float
    warm: float
    one_session: float
    added: float


def generated(turns: int = 600) -> dict[str, Any]:
    """Return a conversation in flat form: much that passes the time, and now and then something to ask for."""
    draw = random.Random(5)
    told: list[dict[str, Any]] = []
    questions = []
    bought = zip(THINGS, PLACES, strict=True)
    facts = [(f"I bought {thing} in {place}.", f"Where did I buy {thing}?") for thing, place in bought]
    between = turns // len(facts)
    for number in range(turns):
        text = f"{draw.choice(PASTIMES)}, number {draw.randrange(1_000)}."
        if number % between == 1 and facts:
            text, question = facts.pop()
            questions.append({"question": question, "evidence": [str(number)], "category": 4})
        speaker = "assistant" if number % 2 == 0 else "user"
        date = f"10:00 am on {1 + number // 50} May, 2026"
        told.append({"id": str(number), "session": number // 50, "date": date, "speaker": speaker, "text": text})
    return {"id": "generated", "turns": told, "questions": questions}


def items_of(conversation: dict[str, Any]) -> list[MemoryItem]:
    """Return one item for each turn, half a minute after the one before, as a user would store it."""
    items: list[MemoryItem] = []
    for number, turn in enumerate(conversation["turns"]):
        named = turn["speaker"] not in ("user", "assistant")
        kind = AIMemory if turn["speaker"] == "assistant" else HumanMemory
        items.append(
            kind(
                id=f"{conversation['id']}/{turn['id']}",
                content=turn["text"],
                name=re.sub(r"\W+", "_", turn["speaker"]) if named else None,
                created_at=(_started(turn["date"]) + timedelta(seconds=30 * number)).isoformat(),
                metadata=MemoryMetadata(user_id="u", session_id=f"s{turn['session']}"),
            )
        )
    return items


def _started(date: str) -> datetime:
    try:
        return datetime.strptime(date, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
    except ValueError:
        return datetime(2024, 1, 1, tzinfo=UTC)


async def evidence(data: Sequence[dict[str, Any]], budgets: Sequence[int], each: int) -> dict[int, Evidence]:
    """Ask some questions of each conversation within every budget."""
    found = {budget: Evidence() for budget in budgets}
    draw = random.Random(1)
    for conversation in data:
        items = {item.id.rpartition("/")[2]: item for item in items_of(conversation)}
        known = [q for q in conversation["questions"] if q.get("evidence") and set(q["evidence"]) <= items.keys()]
        async with memoranda.open("memory://") as store:
            await store.add_many(list(items.values()))
            for question in draw.sample(known, min(each, len(known))):
                wanted = [items[turn] for turn in question["evidence"]]
                await _ask(store, question["question"], wanted, list(items.values()), found)
    return found


async def _ask(
    store: Store,
    question: str,
    wanted: Sequence[MemoryItem],
    items: Sequence[MemoryItem],
    found: dict[int, Evidence],
) -> None:
    ranked = await store.scoped(user_id="u").search(query=question, mode="text", limit=len(items))
    for budget, evidence in found.items():
        handle = store.scoped(user_id="u", session_id="new")
        prompt = await assemble(handle, question, system="You answer.", tokens=budget)
        text = _flat(" ".join(item.content for item in prompt))
        evidence.assembled.append(all(_flat(item.content)[:CHARACTERS_COMPARED] in text for item in wanted))
        evidence.ranked.append({item.id for item in wanted} <= _filled(ranked, budget))
        evidence.newest.append({item.id for item in wanted} <= _filled(items[::-1], budget))
        evidence.tokens.append(sum(map(estimate_tokens, prompt)))


def _flat(text: str) -> str:
    return " ".join(text.split())


def _filled(items: Sequence[MemoryItem], budget: int) -> set[str]:
    """Return the ids of the first items that a budget has room for."""
    chosen: set[str] = set()
    for item in items:
        budget -= estimate_tokens(item) + TOKENS_OF_AN_ENTRY
        if budget < 0:
            break
        chosen.add(item.id)
    return chosen


async def reuse(texts: Sequence[str], budget: int) -> tuple[float, float]:
    """Return the part of all characters that repeats the beginning of the prompt before, and the median of a turn."""
    before = ""
    lengths: list[tuple[int, int]] = []
    async with memoranda.open("memory://") as store:
        chat = store.scoped(user_id="u", session_id="s")
        for question, answer in zip(texts[::2], texts[1::2], strict=False):
            prompt = json.dumps(to_openai(await assemble(chat, question, system=SYSTEM, tokens=budget)))
            if before:
                lengths.append((sum(takewhile(bool, map(eq, before, prompt))), len(prompt)))
            before = prompt
            await chat.add_many([HumanMemory(content=question), AIMemory(content=answer)])
    whole = sum(same for same, _ in lengths) / sum(length for _, length in lengths)
    return whole, statistics.median(same / length for same, length in lengths)


async def processor_time(texts: Sequence[str], questions: Sequence[str]) -> list[Cost]:
    """Return the median of the processor time of a call, by store and budget; every call has another question."""
    started = datetime(2026, 1, 1, tzinfo=UTC)
    per_session = ITEMS // SESSIONS
    items = [
        (AIMemory if number % 2 else HumanMemory)(
            content=texts[number % len(texts)],
            created_at=(started + timedelta(minutes=number)).isoformat(),
            metadata=metadata,
        )
        for number in range(ITEMS)
        for metadata in (MemoryMetadata(user_id="u", session_id=f"s{number // per_session}"), ONE_SESSION)
    ]
    costs = []
    for name, url, options in STORES:
        with tempfile.TemporaryDirectory() as folder:
            async with memoranda.open(url.format(folder=folder), **options) as store:
                await store.add_many(items)
                costs += [await _cost(store, name, budget, questions) for budget in TIMED_BUDGETS]
    return costs


async def _cost(store: Store, name: str, budget: int, questions: Sequence[str]) -> Cost:
    handle, elsewhere = (store.scoped(user_id="u", session_id=session) for session in ("new", "elsewhere"))
    asked, said = cycle(questions), cycle(THINGS)

    async def search() -> None:
        found = await store.scoped(user_id="u").search(query=next(asked), mode="text", limit=budget // 16)
        _filled(found, budget)

    async def prompt(within: Store = handle) -> None:
        await assemble(within, next(asked), system="You are helpful.", tokens=budget)

    async def going_on() -> None:
        await prompt(store.scoped(user_id=ONE_SESSION.user_id, session_id=ONE_SESSION.session_id))

    async def add() -> None:
        await elsewhere.add(HumanMemory(content=f"I own {next(said)}."))
        await asyncio.sleep(0.01)  # What an index does in the background is not part of the call.

    async def taken(call: Callable[[], Awaitable[None]]) -> float:
        began = time.process_time()
        await call()
        return time.process_time() - began

    await search(), await prompt(), await going_on()  # The first ones warm the caches.
    warm = [(await taken(search), await taken(prompt), await taken(going_on)) for _ in range(CALLS)]
    added = [(await add(), await taken(prompt))[1] for _ in range(CALLS)]
    return Cost(name, budget, *map(statistics.median, (*zip(*warm, strict=True), added)))


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, nargs="?", help="a corpus; a conversation is generated without one")
    parser.add_argument("--each", type=int, default=20, help="how many questions of each conversation are asked")
    parser.add_argument("--budgets", default=",".join(map(str, BUDGETS)))
    parser.add_argument("--plot", type=Path, help="where to write the plot of the evidence, as SVG")
    asked = parser.parse_args()
    data = conversations(asked.data) if asked.data else [generated()]
    found = await evidence(data, [int(budget) for budget in asked.budgets.split(",")], asked.each)
    print(f"\n{'budget':>8}{'assemble':>10}{'search':>10}{'newest':>10}{'tokens used':>13}{'questions':>11}")
    for budget, figures in found.items():
        cells = "".join(f"{share:>10.3f}" for share in figures.shares().values())
        print(f"{budget:>8}{cells}{statistics.fmean(figures.tokens):>13.0f}{len(figures.tokens):>11}")
    if asked.plot:
        write_plot(asked.plot, found)
    texts = [turn["text"] for turn in data[0]["turns"]]
    print(f"\n{'budget':>8}{'reused':>10}{'median turn':>13}")
    for budget in REUSE_BUDGETS:
        whole, median = await reuse(texts[:LONGEST_CONVERSATION], budget)
        print(f"{budget:>8}{whole:>10.3f}{median:>13.3f}")
    questions = [question["question"] for conversation in data for question in conversation["questions"]]
    print(f"\nassemble, {ITEMS:,} items, processor time of a call in ms; in brackets, how many times its floor")
    print(f"{'store':>14}{'budget':>8}{'floor':>8}{'warm':>16}{'one session':>16}{'after an add':>16}")
    every_text = [turn["text"] for conversation in data for turn in conversation["turns"]]
    for cost in await processor_time(every_text, questions):
        cells = "".join(
            f"{f'{1e3 * taken:.1f} ({taken / cost.floor:.1f})':>16}"
            for taken in (cost.warm, cost.one_session, cost.added)
        )
        print(f"{cost.store:>14}{cost.budget:>8}{1e3 * cost.floor:>8.1f}{cells}")


def write_plot(path: Path, found: dict[int, Evidence]) -> None:
    """Draw the evidence over the budgets."""
    from memoranda_cli.plot import svg_plot

    lines: dict[str, list[tuple[float, float]]] = {}
    for budget, figures in found.items():
        for name, share in figures.shares().items():
            lines.setdefault(name, []).append((budget, share))
    title = "Questions with all of their evidence in the prompt"
    plot = svg_plot(title, "token budget", "part of the questions", {"": lines}, shares=True)
    path.write_text(plot, encoding="utf-8")


if __name__ == "__main__":
    run(main)
