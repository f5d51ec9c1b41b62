"""The policies that this package ships, as data.

Patterns catch what is written carelessly, in English. They do not catch paraphrase, other languages or encodings, so no
policy relies on them alone: what is stored keeps its trust, and the fence shows it as data.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
