"""Stores that hold a small conversation, and files of questions about it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store

SAID = {
    "seat": "I always book a window seat on the train.",
    "dog": "My dog is called Biscuit, and he sleeps on the sofa.",
    "tea": "Tea without milk in the morning, please.",
    "trip": "The train trip to Oslo took nine hours.",
}


@pytest_asyncio.fixture(params=["memory", "sqlite", "vector"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """Each kind of store with what Ada said, and one item of another user."""
    url = {"memory": "memory://", "sqlite": f"sqlite:///{tmp_path / 'agent.db'}", "vector": "vector://"}[request.param]
    options: dict[str, Any] = {"embeddings": "hashing"} if request.param == "vector" else {}
    async with memoranda.open(url, **options) as opened:
        await fill(opened)
        yield opened


async def fill(store: Store) -> None:
    """Add what Ada said in one session, and an item of another user."""
    for second, (item_id, content) in enumerate(SAID.items()):
        owner = MemoryMetadata(user_id="ada", session_id="monday")
        time = f"2026-01-01T00:00:{second:02}Z"
        await store.add(HumanMemory(id=item_id, content=content, metadata=owner, created_at=time))
    bob = MemoryMetadata(user_id="bob")
    await store.add(HumanMemory(id="bob", content="Bob has a window seat, too.", metadata=bob))


@pytest.fixture
def questions(tmp_path: Path) -> Callable[..., Path]:
    """Write a file with these lines, which are objects or texts."""

    def write(*lines: Any) -> Path:
        path = tmp_path / "questions.jsonl"
        texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
        path.write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
        return path

    return write


@pytest.fixture
def said() -> dict[str, str]:
    """What Ada said, by id."""
    return SAID


@pytest.fixture
def url(tmp_path: Path) -> str:
    """The URL of a file that holds the conversation."""
    made = f"sqlite:///{tmp_path / 'agent.db'}"

    async def work() -> None:
        async with memoranda.open(made) as store:
            await fill(store)

    asyncio.run(work())
    return made


@pytest.fixture
def locomo(tmp_path: Path) -> Callable[..., Path]:
    """Write a conversation of two sessions in LoCoMo's format."""

    def write(**changes: Any) -> Path:
        sample = {
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ada",
                "speaker_b": "Bob",
                "session_2_date_time": "9:05 am on 1 February, 2023",
                "session_2": [{"speaker": "Bob", "dia_id": "D2:1", "text": "I sold my old bicycle."}],
                "session_1_date_time": "1:56 pm on 8 January, 2023",
                "session_1": [
                    {"speaker": "Ada", "dia_id": "D1:1", "text": "I adopted a puppy!", "blip_caption": "a small dog"},
                    {"speaker": "Bob", "dia_id": "D1:2", "text": "Lovely. Mine is a cat."},
                ],
            },
            "qa": [
                {"question": "Who has a puppy?", "answer": "Ada", "evidence": ["D1:1"], "category": 4},
                {"question": "Which animals?", "answer": "both", "evidence": ["D1:1; D1:2", "D9:9"], "category": 1},
                {"question": "Who has a horse?", "adversarial_answer": "Ada", "evidence": ["D1:1"], "category": 5},
                {"question": "Why?", "answer": "", "evidence": [], "category": 3},
            ],
            **changes,
        }
        path = tmp_path / "locomo.json"
        path.write_text(json.dumps([sample]), encoding="utf-8")
        return path

    return write
