"""Policies: rules as data that say what becomes of an item before it is stored, and those that this package ships.

A policy is a dict, or a JSON or TOML file of the same shape::

    name = "shop"
    default = "allow"

    [[rules]]
    name = "instructions"
    reason = "text from outside that addresses the model"
    at_most = "tool"
    patterns = ["ignore (all )?previous instructions"]
    across = 4
    outcome = "quarantine"

A rule applies if all of its conditions do. The first rule that applies decides; where none does, ``default`` does.

Patterns catch what is written carelessly, in English. They do not catch paraphrase, other languages or encodings, so no
policy relies on them alone: what is stored keeps its trust, and the fence shows it as data.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import translate
from functools import cached_property
from typing import Any

from memoranda.items import MemoryItem
from memoranda.store.records import is_from_maker
from memoranda.trust import Trust, origin_of

MOST_ACROSS = 8
"""How many earlier items of an origin a rule may look at together with a new one."""

PREDICATE_FORMAT = "memoranda-fact/1"


class Outcome(StrEnum):
    """What becomes of an item."""

    ALLOW = "allow"
    REDACT = "redact"
    QUARANTINE = "quarantine"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Rule:
    """One rule of a policy. A condition that is left out always holds.

    - ``at_most``: the item's trust is this or lower; ``at_least``: this or higher.
    - ``origins``, ``memory_types``, ``predicates``: one of these patterns matches the whole text, case-insensitive;
      ``*`` stands for anything. An item without an origin has the origin ``""``; an item that is no fact has no
      predicate, and no pattern matches it.
    - ``namespaces``: the item lies in one of these places or below it; a place is a list of texts, or one text with
      slashes.
    - ``by_maker``: if true, the code that makes such items writes it, as a compaction does its summary. Nobody can
      claim that of an item.
    - ``larger_than``: the texts of the item together have more characters.
    - ``more_than`` and ``per_seconds``: its origin wrote more items for this user than that, in so many seconds.
    - ``patterns``: one of these regular expressions is found in a text of the item, folded as
      :mod:`memoranda_guard.inspection` does it; so write them in lower case, without accents. With ``across``, also in
      the texts of so many earlier items of the same origin, user and session, put together with this one's.

    ``reason`` is a sentence for people. Never quote content in it: it is logged, and shown with quarantined items.
    """

    name: str
    outcome: Outcome
    reason: str = ""
    at_most: Trust | None = None
    at_least: Trust | None = None
    origins: tuple[str, ...] = ()
    memory_types: tuple[str, ...] = ()
    namespaces: tuple[tuple[str, ...], ...] = ()
    predicates: tuple[str, ...] = ()
    by_maker: bool = False
    larger_than: int | None = None
    more_than: int | None = None
    per_seconds: float | None = None
    patterns: tuple[str, ...] = ()
    across: int = 0

    @cached_property
    def compiled(self) -> tuple[re.Pattern[str], ...]:
        """The patterns, ready to be searched for."""
        return tuple(re.compile(pattern) for pattern in self.patterns)

    def takes(self, trust: Trust) -> bool:
        """Return True if the conditions on trust hold."""
        low, high = self.at_least or Trust.EXTERNAL, self.at_most or Trust.OPERATOR
        return low.rank <= trust.rank <= high.rank

    def concerns(self, item: MemoryItem) -> bool:
        """Return True if the conditions on what kind of item it is, where, and of which origin, all hold."""
        if self.memory_types and not self._memory_types.match(item.memory_type.casefold()):
            return False
        if self.by_maker and not is_from_maker(item):
            return False
        if self.origins and not self._origins.match((origin_of(item) or "").casefold()):
            return False
        place = item.metadata.namespace
        if self.namespaces and not any(place[: len(wanted)] == wanted for wanted in self.namespaces):
            return False
        predicate = predicate_of(item) if self.predicates else None
        return not self.predicates or (predicate is not None and bool(self._predicates.match(predicate.casefold())))

    @cached_property
    def _origins(self) -> re.Pattern[str]:
        return _globs(self.origins)

    @cached_property
    def _memory_types(self) -> re.Pattern[str]:
        return _globs(self.memory_types)

    @cached_property
    def _predicates(self) -> re.Pattern[str]:
        return _globs(self.predicates)


@dataclass(frozen=True)
class Policy:
    """Rules in their order, and what becomes of an item that none of them concerns."""

    name: str
    rules: tuple[Rule, ...] = ()
    default: Outcome = Outcome.ALLOW


def predicate_of(item: MemoryItem) -> str | None:
    """Return the predicate of a fact, None for any other item."""
    if item.memory_type != "fact":
        return None
    found = getattr(item, "predicate", None)
    if found is None and item.payload_format == PREDICATE_FORMAT:
        try:
            record = json.loads(item.payload or "")
        except (ValueError, RecursionError):
            record = None
        found = record.get("predicate") if isinstance(record, dict) else None
    return found if isinstance(found, str) else ""


def _globs(patterns: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{translate(pattern)})" for pattern in patterns))


# Texts are folded before they are compared, and letters that stand alone are joined, so words may lack their spaces.
# A pattern that starts with letters is found several times faster than one that starts with a border of words.
_OVERRIDES = (
    (
        r"(?:ignore|disregard|forget|override|bypass)\W*(?:\w+\W+){0,4}?"
        r"(?:all|any|previous|prior|above|earlier|your|the|system|safety)\W*(?:\w+\W+){0,3}?"
        r"(?:all|previous|prior|above)?\W*(?:instruction|prompt|rule|guideline|directive|polic(?:y|ies)|restriction)"
    ),
    r"new\W*(?:system\W*)?(?:instructions?|prompt|directives?|orders)\s*:",
    r"you\W*(?:are|must)\W*now\W",
    (
        r"(?:message|instructions?|notes?|attention|important)\W+(?:to|for)\W+(?:the\W+|any\W+|all\W+)?"
        r"(?:ai|assistants?|agents?|language\W+models?|llms?|summari[sz]er)\b"
    ),
)
_ROLES = (
    r"(?:^|\n)[\s>#*\[-]*(?:system|developer|assistant)(?:\W{0,3}(?:message|prompt|note))?[\]*\s]*:",
    r"<\|?\s*/?\s*(?:im_start|im_end|system|assistant|developer|endoftext|start_header_id|eot_id|end_of_turn)\b",
    r"\[/?(?:inst|system|sys|assistant)\]",
    r"<<\s*/?\s*sys\s*>>",
    r"(?:^|\n)#{1,6}\s*(?:system|instructions?|assistant)\b",
    r"[\"']role[\"']\s*:\s*[\"'](?:system|developer|assistant)",
)
_TAGS = (
    r"</?\s*(?:transcript|memories|memory|untrusted|data|system|instructions?|summary|facts?|profile|context)\b[^<>]{0,80}>",
    r"\[/?\s*(?:end\W+)?(?:untrusted|msg\d|transcript|memories)\b",
)
_LASTING = (
    r"(?:remember|memori[sz]e|note|store|save|record)\W+(?:\w+\W+){0,6}?(?:always|never|from\W+now\W+on|permanently)\b",
    r"from\W*now\W*on\W+(?:you|always|never|do|any|every|all)\b",
    (
        r"(?:when(?:ever)?|next\W+time|as\W+soon\W+as|once|if)\W+(?:the\W+)?(?:user|human|someone|anyone)\W+"
        r"(?:\w+\W+){0,8}?(?:send|reply|respond|say|tell|transfer|call|run|execute|recommend|include|book|delete)\b"
    ),
    r"in\W+(?:the\W+|any\W+|every\W+|all\W+)?(?:next|future|later)\W+(?:sessions?|conversations?|chats?)\b",
)
_SECRETS = (
    (
        r"(?:send|forward|post|upload|e-?mail|transfer|exfiltrate|leak)\W+(?:\w+\W+){0,6}?"
        r"(?:passwords?|secrets?|api\W?keys?|credentials?|tokens?|conversation|history|memories|private\W+keys?)\b"
    ),
    (
        r"(?:do\W+not|don\W?t|never|without)\W+(?:tell|telling|inform|informing|mention|mentioning|alert|alerting|notify"
        r"|notifying)\W+(?:\w+\W+){0,3}?(?:user|human|anyone|operator|them)\b"
    ),
)

_SUMMARIES = {
    "name": "summaries",
    "reason": "a summary has the lowest trust of its sources, which were judged when they were stored",
    "memory_types": ["summary"],
    "by_maker": True,
    "outcome": "allow",
}
_FORGED_SYSTEM = {
    "name": "forged-system",
    "reason": "only an operator or a user may write system items",
    "at_most": "agent",
    "memory_types": ["system"],
    "outcome": "quarantine",
}


def _patterns(name: str, reason: str, patterns: tuple[str, ...]) -> dict[str, Any]:
    values = {"name": name, "reason": reason, "patterns": list(patterns)}
    return {**values, "at_most": "tool", "across": 4, "outcome": "quarantine"}


_BY_PATTERN = [
    _patterns("overrides", "text from outside tells the model to drop its instructions", _OVERRIDES),
    _patterns("forged-roles", "text from outside poses as a message of another role", _ROLES),
    _patterns("forged-tags", "text from outside holds the tags that prompts are built with", _TAGS),
    _patterns("lasting-orders", "text from outside asks to be obeyed later", _LASTING),
    _patterns("secrets", "text from outside asks for secrets, or for silence", _SECRETS),
]

SHIPPED: Mapping[str, Mapping[str, Any]] = {
    "strict": {
        "rules": [
            _SUMMARIES,
            _FORGED_SYSTEM,
            {
                "name": "forged-speakers",
                "reason": "a tool or a stranger may not write as a person or as the model",
                "at_most": "tool",
                "memory_types": ["human", "ai"],
                "outcome": "quarantine",
            },
            {
                "name": "facts-from-outside",
                "reason": "a tool or a stranger may not write facts",
                "at_most": "tool",
                "memory_types": ["fact", "graph"],
                "outcome": "refuse",
            },
            {
                "name": "strangers",
                "reason": "everything from outside waits for an approval",
                "at_most": "external",
                "outcome": "quarantine",
            },
            {
                "name": "flood",
                "reason": "one origin writes more than 120 items in a minute",
                "at_most": "tool",
                "more_than": 120,
                "per_seconds": 60,
                "outcome": "refuse",
            },
            {
                "name": "oversized",
                "reason": "more than 50,000 characters from outside",
                "at_most": "tool",
                "larger_than": 50_000,
                "outcome": "quarantine",
            },
            *_BY_PATTERN,
        ]
    },
    "standard": {
        "rules": [
            _SUMMARIES,
            _FORGED_SYSTEM,
            {
                "name": "flood",
                "reason": "one origin outside writes more than 600 items in a minute",
                "at_most": "external",
                "more_than": 600,
                "per_seconds": 60,
                "outcome": "refuse",
            },
            {
                "name": "oversized",
                "reason": "more than 200,000 characters from outside",
                "at_most": "tool",
                "larger_than": 200_000,
                "outcome": "quarantine",
            },
            *_BY_PATTERN,
        ]
    },
    "off": {"rules": []},
}
"""The shipped policies by name, from the strictest."""
