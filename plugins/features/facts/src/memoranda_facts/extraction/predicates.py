"""The predicates that the rules give, declared: which of them have one value at a time, and which belong together."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda_facts.schema import Predicate, Schema

PARTNERS = ("wife", "husband", "spouse", "partner", "fiance", "girlfriend", "boyfriend")
"""The predicates of whom somebody lives with as a couple."""

GROUPS = {
    "partner": PARTNERS,
    "living": ("pet", *PARTNERS, "roommate", "flatmate", "best_friend"),
    "household": ("roommate", "flatmate", *PARTNERS),
    "activity": ("does", "plays", "learning", "studies", "likes", "member_of", "volunteers_at", "diet", "takes"),
    "place": ("employer", "studies_at", "studies", "member_of", "volunteers_at"),
    "possession": ("drives", "owns", "has", "pet", "uses"),
    "taste": ("likes", "plays", "does", "uses"),
}
"""Predicates that one sentence can end: whoever "left" something, may have worked, studied or lived there."""

_ONE = (
    *("lives_in", "job", "employer", "marital_status", *PARTNERS, "diet", "age", "birthday", "born_on", "born_in"),
    *("nationality", "studies_at", "mother", "father", "boss", "manager", "name", "email", "phone", "drives"),
    *("hometown", "major", "job_title", "address", "time_zone", "timezone", "blood_type", "shoe_size", "religion"),
    *("rent", "salary", "weight", "mortgage", "pay"),
    *("favorite_*", "when_*", "dose_of_*"),
)
_EVENTS = ("visited", "joined", "graduated_from")
_PINNED = ("name", "lives_in", "job", "employer", "marital_status", *PARTNERS, "diet", "condition", "allergic_to")
_ALIASES = {
    "lives_in": ("home", "city", "residence", "lives"),
    "employer": ("works_at", "works_for", "company"),
    "job": ("occupation", "profession", "works_as"),
    "likes": ("loves", "enjoys"),
    "dislikes": ("hates",),
}


def has_one_value(predicate: str) -> bool:
    """Return True if a new value of a predicate ends the one before."""
    return predicate in _ONE or predicate.startswith(("favorite_", "when_", "dose_of_"))


def everyday_schema(one: Iterable[str] = ()) -> Schema:
    """Return the schema of the predicates that the rules give; ``one`` are further ones with one value at a time."""
    single = dict.fromkeys((*_ONE, *one))
    names = dict.fromkeys((*_PINNED, *single, *_EVENTS, *_ALIASES))
    return Schema(
        Predicate(
            name,
            "one" if name in single else "event" if name in _EVENTS else "many",
            aliases=_ALIASES.get(name, ()),
            pinned=name in _PINNED,
        )
        for name in names
    )
