"""Reading policies from dicts and files. Every mistake is an InputError that names the rule and the field."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from memoranda.errors import InputError
from memoranda.trust import Trust
from memoranda_guard.policy import MOST_ACROSS, SHIPPED, Outcome, Policy, Rule


def load_policy(given: Policy | Mapping[str, Any] | str | Path) -> Policy:
    """Return a policy: one as it is, from a dict, by the name of a shipped one, or from a .json or .toml file.

    Raises InputError, which names the rule and the field, for every mistake in it.
    """
    if isinstance(given, Policy):
        return given
    if isinstance(given, Mapping):
        return _policy(given)
    if isinstance(given, str) and given in SHIPPED:
        return _policy({"name": given, **SHIPPED[given]})
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
    default = _member(Outcome, given.get("default", Outcome.ALLOW), "default", "the policy")
    if default is Outcome.REDACT:
        raise InputError("The policy's default cannot be 'redact', which needs patterns.", field="default")
    return Policy(_text(given.get("name", "policy"), "name", "the policy"), made, default)


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
    values: dict[str, Any] = {"outcome": _member(Outcome, given["outcome"], "outcome", where)}
    values |= {name: _text(given[name], name, where) for name in ("name", "reason") if name in given}
    values |= {name: _member(Trust, given[name], name, where) for name in ("at_most", "at_least") if name in given}
    for name in ("origins", "memory_types", "predicates", "patterns"):
        values[name] = _texts(given.get(name, ()), name, where)
    values["origins"], values["memory_types"], values["predicates"] = (
        tuple(text.casefold() for text in values[name]) for name in ("origins", "memory_types", "predicates")
    )
    values["namespaces"] = _places(given.get("namespaces", ()), where)
    values |= {
        name: _whole(given[name], name, where) for name in ("larger_than", "more_than", "across") if name in given
    }
    if "by_maker" in given:
        if not isinstance(given["by_maker"], bool):
            raise InputError(f"In the policy, {where}: 'by_maker' must be true or false.", field="by_maker")
        values["by_maker"] = given["by_maker"]
    if "per_seconds" in given:
        seconds = given["per_seconds"]
        if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
            raise InputError(f"In the policy, {where}: 'per_seconds' must be a number above 0.", field="per_seconds")
        values["per_seconds"] = float(seconds)
    rule = Rule(**values)
    _check(rule, where)
    return rule


def _check(rule: Rule, where: str) -> None:
    """Raise InputError for fields that are right one by one, and wrong together."""
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


def _member(kind: Any, value: Any, name: str, where: str) -> Any:
    try:
        return kind(value)
    except ValueError:
        known = ", ".join(kind)
        raise InputError(f"In the policy, {where}: {name!r} must be one of {known}.", field=name) from None


def _text(value: Any, name: str, where: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise InputError(f"In the policy, {where}: {name!r} must be a text.", field=name)
    return value


def _texts(value: Any, name: str, where: str) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(each, str) for each in value):
        raise InputError(f"In the policy, {where}: {name!r} must be a list of texts.", field=name)
    return tuple(value)


def _places(value: Any, where: str) -> tuple[tuple[str, ...], ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise InputError(f"In the policy, {where}: 'namespaces' must be a list of places.", field="namespaces")
    split = [each.strip("/").split("/") if isinstance(each, str) else each for each in value]
    return tuple(_texts(each, "namespaces", where) for each in split)


def _whole(value: Any, name: str, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InputError(f"In the policy, {where}: {name!r} must be a whole number, 0 or more.", field=name)
    return value
