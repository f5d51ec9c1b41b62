"""Answers of calls in a form that can be compared completely, and the difference between two of them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from memoranda.items import MemoryItem, Payload
from memoranda.store import Owner, RankedItem, Recalled
from memoranda_testing.model.reference import AtMost

_NESTED = (dict, list)
"""The classes of values that a caller can change within an item."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An item as it was returned: its class, and every field with its exact value."""

    kind: str
    values: dict[str, Any] = field(compare=False)
    text: str

    @classmethod
    def of(cls, item: MemoryItem) -> Seen:
        """Return a snapshot of the item."""
        values = {**item.__dict__, **(item.__pydantic_extra__ or {})}
        for name, value in values.items():
            if value.__class__ in _NESTED:
                values[name] = _copied(value)  # The caller's is spoiled afterwards.
        if "places" in values:  # The numbers that a store gives the places of a branch are its own.
            values["places"] = sorted(values["places"])
        whose = item.metadata.__dict__
        values["metadata"] = {**whose, "extra": _copied(whose["extra"])}
        return cls(type(item).__name__, values, repr([values[name] for name in sorted(values)]))

    @property
    def id(self) -> str:
        """The id, as it is written in Python."""
        return repr(self.values["id"])

    @property
    def fields(self) -> dict[str, str]:
        """Every field, as its value is written in Python."""
        return {name: repr(value) for name, value in self.values.items()}


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(inner) for key, inner in value.items()}
    return [_copied(inner) for inner in value] if isinstance(value, list) else value


@dataclass(frozen=True, slots=True)
class SeenRank:
    """A ranked item: the item and its score."""

    item: Seen
    score: float


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call returned, or the errors that it raised or may raise."""

    value: Any = None
    errors: tuple[str, ...] = ()


NOTHING = Answer()
"""What a call answers that returns nothing."""

_SHORT = 12
"""Lists of at most so many elements are shown whole."""

NOT_ENDED = "no end"
"""Stands among the errors of an answer that was waited for in vain."""


@dataclass(frozen=True, slots=True)
class Difference:
    """What is different: its kind, a sentence, and the line of a program that shows it."""

    kind: str
    sentence: str
    line: str


def seen(value: Any) -> Any:
    """Return a value in a comparable form: true is not 1, 1 is not 1.0, and the order of keys counts."""
    if isinstance(value, MemoryItem):
        return Seen.of(value)
    if isinstance(value, RankedItem):
        return SeenRank(seen(value.item), value.score)
    if isinstance(value, Recalled):
        return [value.verdict, list(value.unsupported), [seen(found) for found in value]]
    if isinstance(value, list):
        return [seen(inner) for inner in value]
    return value


def spoil(value: Any) -> None:
    """Change an item that the caller holds, at every depth; that must not change what is stored."""
    if isinstance(value, MemoryItem):
        for inner in (*value.__dict__.values(), *(value.__pydantic_extra__ or {}).values(), value.metadata.extra):
            if inner.__class__ in _NESTED:
                _spoil_json(inner)
        value.__dict__["content"] = "changed by the caller"
    elif isinstance(value, RankedItem):
        spoil(value.item)
    elif isinstance(value, (list, tuple, Recalled)):
        for inner in value:
            if inner.__class__ is not str:
                spoil(inner)


def _spoil_json(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            _spoil_json(inner)
        value["changed"] = "by the caller"
    elif isinstance(value, list):
        for inner in value:
            _spoil_json(inner)
        value.append("changed by the caller")


def difference(wanted: Answer, found: Answer) -> Difference | None:
    """Return how an answer differs from the one that is wanted; None if it does not."""
    if NOT_ENDED in found.errors:
        return Difference("not ended", "it did not end.", "")
    if wanted.errors or found.errors:
        return _error_difference(wanted, found)
    return _value_difference(wanted.value, found.value)


def _error_difference(wanted: Answer, found: Answer) -> Difference | None:
    if wanted.errors and found.errors and set(found.errors) <= set(wanted.errors):
        return None
    if not wanted.errors:
        return Difference("error", f"it raised {found.errors[0]}, where it is to return {_short(wanted.value)}.", "")
    names = " or ".join(dict.fromkeys(wanted.errors))
    if found.errors:
        return Difference("other error", f"it raised {found.errors[0]}, where {names} is to be raised.", "")
    return Difference("no error", f"it returned {_short(found.value)}, where {names} is to be raised.", "")


def _value_difference(wanted: Any, found: Any) -> Difference | None:
    if isinstance(wanted, AtMost):
        if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= wanted.number:
            return None
        return Difference("number", f"expected at most {wanted.number}, found {found}.", f"found <= {wanted.number}")
    if isinstance(wanted, list) and isinstance(found, list):
        return _list_difference(wanted, found)
    if isinstance(wanted, Seen) and isinstance(found, Seen):
        return _item_difference(wanted, found, "found")
    if wanted is None or found is None:
        if wanted is found:
            return None
        kind, line = ("too much", "found is None") if wanted is None else ("missing", "found is not None")
        return Difference(kind, f"expected {_short(wanted)}, found {_short(found)}.", line)
    if type(wanted) is type(found) and wanted == found:
        return None
    kind = "number" if isinstance(wanted, int) else "value"
    return Difference(kind, f"expected {_short(wanted)}, found {_short(found)}.", f"found == {wanted!r}")


def _list_difference(wanted: Sequence[Any], found: Sequence[Any]) -> Difference | None:
    is_ranked = any(isinstance(one, SeenRank) for one in (*wanted, *found))
    names = [_name(one) for one in wanted], [_name(one) for one in found]
    if is_ranked:
        return _rank_difference(wanted, found, *names)
    if names[0] != names[1]:
        first = [*wanted, *found][0]
        return _names_difference(*names, owners=isinstance(first, Owner), payloads=isinstance(first, Payload))
    for position, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if isinstance(one, Seen) and isinstance(other, Seen):
            unlike = _item_difference(one, other, f"found[{position}]")
            if unlike is not None:
                return unlike
        elif one != other:
            line = f"(found[{position}].count, found[{position}].first, found[{position}].last) == {_owner(one)!r}"
            return Difference("number", f"expected {one!r}, found {other!r}.", line)
    return None


def _owner(owner: Owner) -> tuple[int, str, str]:
    return owner.count, owner.first, owner.last


def _names_difference(
    wanted: list[str], found: list[str], *, owners: bool = False, ranked: bool = False, payloads: bool = False
) -> Difference:
    missing, further = [name for name in wanted if name not in found], [name for name in found if name not in wanted]
    kind = "missing" if missing else "too much" if further or len(found) > len(wanted) else "order"
    if kind == "missing" and further and len(missing) == len(further) == 1 and len(wanted) > 1:
        kind = "too much"
    part = "owner.value for owner" if owners else "each.item.id for each" if ranked else "item.id for item"
    line = f"[{part} in found] == [{', '.join(wanted)}]"
    if payloads:
        line = f"found == [{', '.join(wanted)}]"
    if len(wanted) > 40:
        line = f"len(found) == {len(wanted)}"
        if len(wanted) == len(found):
            at = next(place for place, pair in enumerate(zip(wanted, found, strict=True)) if pair[0] != pair[1])
            line = f"found[{at}].id == {wanted[at]}"
    return Difference(kind, list_difference(wanted, found), line)


def _rank_difference(
    wanted: Sequence[Any], found: Sequence[Any], wanted_names: list[str], found_names: list[str]
) -> Difference | None:
    """Compare rankings; items whose scores differ only in the last digits may be in either order."""
    if sorted(wanted_names) != sorted(found_names):
        return _names_difference(wanted_names, found_names, ranked=True)
    for position, (one, other) in enumerate(zip(wanted, found, strict=True)):
        if not math.isclose(one.score, other.score, rel_tol=1e-6, abs_tol=1e-9):
            if one.item.id != other.item.id:
                return _names_difference(wanted_names, found_names, ranked=True)
            sentence = f"the score of {one.item.id} is to be {one.score:.9g}, and is {other.score:.9g}."
            return Difference("score", sentence, f"round(found[{position}].score, 6) == {round(one.score, 6)!r}")
    by_id = {one.item.id: one.item for one in wanted}
    for position, other in enumerate(found):
        unlike = _item_difference(by_id[other.item.id], other.item, f"found[{position}].item")
        if unlike is not None:
            return unlike
    return None


def _item_difference(wanted: Seen, found: Seen, place: str) -> Difference | None:
    if wanted == found:
        return None
    if wanted.id != found.id:
        return Difference("order", f"expected the item {wanted.id}, found {found.id}.", f"{place}.id == {wanted.id}")
    if wanted.kind != found.kind:
        line = f"type({place}).__name__ == {wanted.kind!r}"
        return Difference("field", f"expected a {wanted.kind}, found a {found.kind}.", line)
    for name in (*(each for each in wanted.fields if each != "version"), *found.fields, "version"):
        one, other = wanted.fields.get(name), found.fields.get(name)
        if one != other:
            kind = {"version": "version", "expires_at": "lifetime", "ttl": "lifetime"}.get(name, "field")
            sentence = f"{name} of the item {wanted.id} is to be {_cut(one)}, and is {_cut(other)}."
            held = f"vars({place}.metadata)" if name == "metadata" else f"getattr({place}, {name!r}, None)"
            line = f"repr({held}) == {one!r}"
            return Difference(kind, sentence, line)
    return None


def _name(one: Any) -> str:
    if isinstance(one, SeenRank):
        return one.item.id
    return one.id if isinstance(one, Seen) else repr(one.value) if isinstance(one, Owner) else repr(one)


def list_difference(wanted: Sequence[str], found: Sequence[str]) -> str:
    """Return how two lists differ: both of them if they are short, else what is missing, too much or moved."""
    if max(len(wanted), len(found)) <= _SHORT:
        return f"expected {_listed(wanted)}, found {_listed(found)}."
    lacking, further = Counter(wanted) - Counter(found), Counter(found) - Counter(wanted)
    parts = [f"{len(wanted)} are expected and {len(found)} were found"]
    if lacking:
        parts.append(f"missing: {_listed(list(lacking.elements()))}")
    if further:
        parts.append(f"too much: {_listed(list(further.elements()))}")
    if not lacking and not further:
        at = next(place for place, pair in enumerate(zip(wanted, found, strict=True)) if pair[0] != pair[1])
        moved = [_listed(names[at : at + 4]) for names in (wanted, found)]
        parts.append(f"from position {at} on expected {moved[0]}, found {moved[1]}")
    return f"{'; '.join(parts)}."


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
    return f"[{shown}]"


def _cut(text: str | None) -> str:
    if text is None:
        return "missing"
    return text if len(text) <= 120 else f"{text[:120]}…"


def _short(value: Any) -> str:
    if isinstance(value, Seen):
        return f"the item {value.id}"
    if isinstance(value, list):
        return _listed([_name(one) for one in value])
    if isinstance(value, AtMost):
        return f"at most {value.number}"
    return _cut(repr(value))
