"""Does recall know what it does not know, and does it find what is asked for indirectly?

``retrieval.py`` prints this table for every store. Questions with an answer should be recalled with it. Questions of
another conversation and about far topics (``corpora/far.json``) should get the verdict ``unknown``. Where the person
whom a question names is exchanged for a stranger, the stranger should be named as unsupported. Preferences
(``corpora/preferences.json``) are told somewhere in each conversation, and asked for without naming them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Recalled, SearchMode, Store

CORPORA = Path(__file__).parent / "corpora"
STRANGERS = ("Ottilie", "Gustav", "Priya", "Hamza", "Leopold")
KINDS = ("answered", "another conversation's", "far", "a stranger's", "trick", "preference")
UNANSWERED = 5
PREFERENCES_EACH = 10


@dataclass
class Verdicts:
    """What ``recall`` said to the questions of one kind."""

    found: list[float] = field(default_factory=list)
    returned: list[int] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)
    named: list[bool] = field(default_factory=list)
    ten: list[bool] = field(default_factory=list)
    """Whether the first ten results of the ranking have what is to be found, before anything is left out."""

    def add(self, recalled: Recalled, evidence: set[str], name: str) -> None:
        self.returned.append(len(recalled))
        self.verdicts.append(recalled.verdict)
        if evidence:
            self.found.append(len(evidence.intersection(each.item.id for each in recalled)) / len(evidence))
        if name:
            self.named.append(any(name in word for word in recalled.unsupported))

    def row(self) -> str:
        count = len(self.verdicts)
        shares = [self.verdicts.count(verdict) / count for verdict in ("known", "near", "unknown")]
        cells = [sum(self.returned) / count, *shares]
        extra = [sum(values) / len(values) if values else None for values in (self.found, self.named, self.ten)]
        texts = [f"{cell:>8.3f}" for cell in cells] + [
            f"{'':>8}" if cell is None else f"{cell:>8.3f}" for cell in extra
        ]
        return f"{count:>6}" + "".join(texts)


def questions_of(data: Sequence[dict[str, Any]]) -> Iterator[tuple[str, str, str, set[str], str]]:
    """Yield of each question its kind, conversation and text, its evidence, and the name that is wrong in it."""
    draw = random.Random(7)
    far = json.loads((CORPORA / "far.json").read_text(encoding="utf-8"))
    for place, conversation in enumerate(data):
        name, other = conversation["id"], data[(place + 1) % len(data)]["id"]
        known = {turn["id"] for turn in conversation["turns"]}
        speakers = sorted({turn["speaker"] for turn in conversation["turns"]})
        for question in conversation["questions"]:
            text = question["question"]
            asked = [speaker for speaker in speakers if re.search(rf"\b{re.escape(speaker)}\b", text)]
            evidence = {f"{name}/{turn}" for turn in question.get("evidence", []) if turn in known}
            if question["category"] == UNANSWERED:
                yield "trick", name, text, set(), asked[0] if len(asked) == 1 else ""
            elif evidence:
                yield "answered", name, text, evidence, ""
                if other != name:
                    yield "another conversation's", other, text, set(), ""
                if asked:
                    stranger = draw.choice(STRANGERS)
                    yield "a stranger's", name, re.sub(rf"\b{asked[0]}\b", stranger, text), set(), stranger
        yield from (("far", name, text, set(), "") for text in far[place::3])


async def measure_verdicts(store: Store, data: Sequence[dict[str, Any]]) -> dict[str, Verdicts]:
    """Ask all questions; return what was recalled by kind."""
    found: dict[str, Verdicts] = {}
    for kind, user, text, evidence, name in questions_of(data):
        recalled = await store.recall(text, metadata=MemoryMetadata(user_id=user), verdict=True)
        found.setdefault(kind, Verdicts()).add(recalled, evidence, name)
    preferences = json.loads((CORPORA / "preferences.json").read_text(encoding="utf-8"))
    for place, conversation in enumerate(data):
        some = preferences[PREFERENCES_EACH * place : PREFERENCES_EACH * (place + 1)]
        await _tell(store, conversation, some)
        for number, each in enumerate(some):
            scope = MemoryMetadata(user_id=conversation["id"])
            recalled = await store.recall(each["asked"], metadata=scope, verdict=True)
            told = {f"{conversation['id']}/preference{number}"}
            found.setdefault("preference", Verdicts()).add(recalled, told, "")
            mode: SearchMode = "hybrid" if "hybrid" in store.capabilities else "text"
            ranked = await store.search_ranked(query=each["asked"], metadata=scope, mode=mode, limit=10)
            found["preference"].ten.append(any(one.item.id in told for one in ranked))
    return {kind: found[kind] for kind in KINDS if kind in found}


async def _tell(store: Store, conversation: dict[str, Any], preferences: Sequence[dict[str, str]]) -> None:
    """Add preferences, each right after a turn of the conversation and in its session."""
    scope = MemoryMetadata(user_id=conversation["id"])
    said = await store.search(metadata=scope, limit=len(conversation["turns"]), order="created")
    for number, each in enumerate(preferences):
        host = said[number * len(said) // len(preferences)]
        await store.add(
            HumanMemory(
                id=f"{conversation['id']}/preference{number}",
                content=each["told"],
                name=host.name,
                created_at=host.created_at,
                metadata=host.metadata,
            )
        )
