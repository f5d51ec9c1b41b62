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
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from fnmatch import translate
from functools import cache, cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from memoranda.errors import InputError
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


SHIPPED = ("strict", "standard", "off")
"""The names of the shipped policies, from the strictest."""


@cache
def _shipped() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """Return the rules of each shipped policy."""
    found: dict[str, list[Mapping[str, Any]]] = {name: [] for name in SHIPPED}
    text = files("memoranda_guard").joinpath("shipped_policies.toml").read_text("utf-8")
    for rule in tomllib.loads(text)["rules"]:
        for name in rule.pop("in"):
            found[name].append(rule)
    return found


def load_policy(given: Policy | Mapping[str, Any] | str | Path) -> Policy:
    """Return a policy: one as it is, from a dict, by the name of a shipped one, or from a .json or .toml file.

    Raises InputError, which names the rule and the field, for every mistake in it.
    """
    if isinstance(given, Policy):
        return given
    if isinstance(given, Mapping):
        return _policy(given)
    if isinstance(given, str) and given in SHIPPED:
        return _policy({"name": given, "rules": _shipped()[given]})
    if isinstance(given, Path) or (isinstance(given, str) and given.endswith((".json", ".toml"))):
        return _policy(_read(Path(given)))
    raise InputError(
        f"A policy is a dict, a Policy, a .json or .toml file, or one of {', '.join(SHIPPED)}.", field="policy"
    )


def _read(path: Path) -> Mapping[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = type(error).__name__
        raise InputError(f"The policy {str(path)!r} cannot be read: {reason}.", field="policy") from error
    try:
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        kind = "TOML" if path.suffix == ".toml" else "JSON"
        raise InputError(f"The policy {str(path)!r} is not valid {kind}: {error}", field="policy") from error
    if not isinstance(found, dict):
        raise InputError(f"The policy {str(path)!r} holds a {type(found).__name__}, not an object.", field="policy")
    return {"name": path.stem, **found}


def _policy(given: Mapping[str, Any]) -> Policy:
    _known(given, {"name", "rules", "default"}, "the policy")
    rules = given.get("rules", [])
    if not isinstance(rules, (list, tuple)):
        raise InputError("The policy's 'rules' must be a list.", field="rules")
    made = tuple(_rule(rule, position) for position, rule in enumerate(rules, start=1))
    names = [rule.name for rule in made]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(
            f"Two rules of the policy are called {doubled[0]!r}; each needs a name of its own.", field="rules"
        )
    default = _field(given.get("default", Outcome.ALLOW), "outcome", "the policy", called="default")
    if default is Outcome.REDACT:
        raise InputError("The policy's default cannot be 'redact', which needs patterns.", field="default")
    return Policy(_field(given.get("name", "policy"), "name", "the policy"), made, default)


def _rule(given: Any, position: int) -> Rule:
    where = f"rule {position}"
    if isinstance(given, Rule):
        return given
    if not isinstance(given, Mapping):
        raise InputError(f"In the policy, {where} must be an object, not {type(given).__name__}.", field="rules")
    if isinstance(given.get("name"), str):
        where = f"rule {position} ({given['name']!r})"
    _known(given, {each.name for each in fields(Rule)}, where)
    for needed in ("name", "outcome"):
        if needed not in given:
            raise InputError(f"In the policy, {where} has no {needed!r}.", field=needed)
    values: dict[str, Any] = {name: _field(given[name], name, where) for name in _FIELDS if name in given}
    if not all(map(_are_texts, values.get("namespaces", ()))):
        raise _must_be("a list of texts", "namespaces", where)
    values["namespaces"] = tuple(map(tuple, values.get("namespaces", ())))
    rule = Rule(**values)
    _check(rule, where)
    return rule


def _check(rule: Rule, where: str) -> None:
    if (rule.more_than is None) != (rule.per_seconds is None):
        raise InputError(f"In the policy, {where}: 'more_than' and 'per_seconds' go together.", field="per_seconds")
    if rule.outcome is Outcome.REDACT and not rule.patterns:
        raise InputError(
            f"In the policy, {where}: 'redact' needs patterns, which say what to replace.", field="patterns"
        )
    if rule.across and not rule.patterns:
        raise InputError(f"In the policy, {where}: 'across' needs patterns.", field="across")
    if rule.across > MOST_ACROSS:
        raise InputError(f"In the policy, {where}: 'across' is at most {MOST_ACROSS}.", field="across")
    if rule.at_most and rule.at_least and rule.at_least.rank > rule.at_most.rank:
        raise InputError(f"In the policy, {where}: no trust is both 'at_least' and 'at_most' these.", field="at_least")
    for position, pattern in enumerate(rule.patterns, start=1):
        try:
            compiled = re.compile(pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise InputError(
                f"In the policy, {where}: pattern {position} is not a regular expression: {error}.", field="patterns"
            ) from error
        if compiled.match(""):
            raise InputError(f"In the policy, {where}: pattern {position} matches an empty text.", field="patterns")


def _known(given: Mapping[str, Any], names: set[str], where: str) -> None:
    if unknown := sorted(str(name) for name in given if name not in names):
        listed = ", ".join(sorted(names))
        what = "the policy" if where == "the policy" else f"in the policy, {where}"
        raise InputError(
            f"{what[0].upper()}{what[1:]} has no field {unknown[0]!r}. Fields: {listed}.", field=unknown[0]
        )


def _must_be(what: str, name: str, where: str) -> InputError:
    return InputError(f"In the policy, {where}: {name!r} must be {what}.", field=name)


def _field(value: Any, field: str, where: str, *, called: str = "") -> Any:
    what, fits, made = _FIELDS[field]
    if not fits(value):
        raise _must_be(what, called or field, where)
    return made(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _are_texts(value: Any) -> bool:
    return _is_list(value) and all(isinstance(each, str) for each in value)


_Field = tuple[str, Callable[[Any], bool], Callable[[Any], Any]]
_TEXT: _Field = ("a text", lambda value: isinstance(value, str) and bool(value.strip()), str)
_TRUST: _Field = (f"one of {', '.join(Trust)}", lambda value: value in [*Trust], Trust)
_PATTERNS: _Field = ("a list of texts", _are_texts, lambda value: tuple(text.casefold() for text in value))
_WHOLE: _Field = ("a whole number, 0 or more", lambda value: type(value) is int and value >= 0, int)

_FIELDS: Mapping[str, _Field] = {
    "outcome": (f"one of {', '.join(Outcome)}", lambda value: value in [*Outcome], Outcome),
    **dict.fromkeys(("name", "reason"), _TEXT),
    **dict.fromkeys(("at_most", "at_least"), _TRUST),
    **dict.fromkeys(("origins", "memory_types", "predicates"), _PATTERNS),
    "patterns": ("a list of texts", _are_texts, tuple),
    "namespaces": (
        "a list of places",
        _is_list,
        lambda value: tuple(tuple(each.strip("/").split("/")) if isinstance(each, str) else each for each in value),
    ),
    **dict.fromkeys(("larger_than", "more_than", "across"), _WHOLE),
    "by_maker": ("true or false", lambda value: isinstance(value, bool), bool),
    "per_seconds": (
        "a number above 0",
        lambda value: type(value) in (int, float) and 0 < value < float("inf"),
        float,
    ),
}
"""What each field of a rule must be, how to tell, and what makes its value of it."""
