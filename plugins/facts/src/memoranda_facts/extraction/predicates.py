"""The predicates that the rules give, declared: which of them have one value at a time."""

from __future__ import annotations

from collections.abc import Iterable

from memoranda_facts.schema import Predicate, Schema

_ONE = (
    *("lives_in", "job", "employer", "marital_status", "spouse", "diet", "age", "birthday", "born_on", "born_in"),
    *(
        "nationality",
        "studies_at",
        "wife",
        "husband",
        "partner",
        "fiance",
        "girlfriend",
        "boyfriend",
        "mother",
        "father",
    ),
    *("hometown", "major", "job_title", "address", "time_zone", "timezone", "blood_type", "shoe_size", "religion"),
)
_EVENTS = ("visited", "joined", "graduated_from")
_PINNED = ("name", "lives_in", "job", "employer", "spouse", "diet", "allergic_to")
_ALIASES = {
    "lives_in": ("home", "city", "residence", "lives"),
    "employer": ("works_at", "works_for", "company"),
    "job": ("occupation", "profession", "works_as"),
    "likes": ("loves", "enjoys"),
    "dislikes": ("hates",),
}


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
