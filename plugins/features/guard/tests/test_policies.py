"""Policies as data: what can be written in them, and that every mistake is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from memoranda import AIMemory, HumanMemory, InputError, MemoryItem, MemoryMetadata, ToolMemory
from memoranda.trust import trust_of
from memoranda_guard import Outcome, Policy, Rule, load_policy

RULE: dict[str, Any] = {"name": "mine", "outcome": "refuse"}


@pytest.mark.parametrize("name", ["strict", "standard", "off"])
def test_a_shipped_policy_is_found_by_its_name(name: str) -> None:
    policy = load_policy(name)

    assert policy.name == name
    assert policy.default is Outcome.ALLOW
    assert all(rule.reason for rule in policy.rules)


def test_strict_has_every_rule_of_standard_or_a_stricter_one() -> None:
    strict, standard = ({rule.name for rule in load_policy(name).rules} for name in ("strict", "standard"))

    assert standard < strict
    assert not load_policy("off").rules


def test_a_policy_is_read_from_json_and_toml_alike(tmp_path: Path) -> None:
    rule = {"name": "web", "outcome": "quarantine", "at_most": "tool", "origins": ["WEB*"], "namespaces": ["a/b"]}
    (tmp_path / "shop.json").write_text(json.dumps({"rules": [rule], "default": "refuse"}))
    (tmp_path / "shop.toml").write_text(
        'default = "refuse"\n[[rules]]\nname = "web"\noutcome = "quarantine"\nat_most = "tool"\n'
        'origins = ["WEB*"]\nnamespaces = [["a", "b"]]\n'
    )

    policies = [load_policy(tmp_path / "shop.json"), load_policy(str(tmp_path / "shop.toml"))]

    assert policies[0] == policies[1]
    assert policies[0].name == "shop"
    assert policies[0].rules[0].namespaces == (("a", "b"),)
    assert load_policy(policies[0]) is policies[0]


@pytest.mark.parametrize(
    ("wrong", "field", "said"),
    [
        ({"rules": {}}, "rules", "must be a list"),
        ({"rules": ["x"]}, "rules", "rule 1 must be an object"),
        ({"rulez": []}, "rulez", "no field 'rulez'"),
        ({"default": "maybe"}, "default", "allow, redact, quarantine, refuse"),
        ({"default": "redact"}, "default", "needs patterns"),
        ({"rules": [{"name": "x"}]}, "outcome", r"rule 1 \('x'\) has no 'outcome'"),
        ({"rules": [{"outcome": "allow"}]}, "name", "rule 1 has no 'name'"),
        ({"rules": [RULE, RULE]}, "rules", "are called 'mine'"),
        ({"rules": [{**RULE, "pattern": "x"}]}, "pattern", "no field 'pattern'"),
        ({"rules": [{**RULE, "name": " "}]}, "name", "must be a text"),
        ({"rules": [{**RULE, "at_most": "everyone"}]}, "at_most", "external, tool, agent, user, operator"),
        ({"rules": [{**RULE, "at_most": "tool", "at_least": "user"}]}, "at_least", "no trust is both"),
        ({"rules": [{**RULE, "patterns": "x"}]}, "patterns", "list of texts"),
        ({"rules": [{**RULE, "patterns": ["a", "("]}]}, "patterns", "pattern 2 is not a regular expression"),
        ({"rules": [{**RULE, "patterns": ["a*"]}]}, "patterns", "matches an empty text"),
        ({"rules": [{**RULE, "outcome": "redact"}]}, "patterns", "'redact' needs patterns"),
        ({"rules": [{**RULE, "across": 2}]}, "across", "'across' needs patterns"),
        ({"rules": [{**RULE, "across": 99, "patterns": ["a"]}]}, "across", "at most 8"),
        ({"rules": [{**RULE, "more_than": 3}]}, "per_seconds", "go together"),
        ({"rules": [{**RULE, "by_maker": "yes"}]}, "by_maker", "true or false"),
        ({"rules": [{**RULE, "more_than": 3, "per_seconds": 0}]}, "per_seconds", "above 0"),
        ({"rules": [{**RULE, "larger_than": -1}]}, "larger_than", "whole number"),
        ({"rules": [{**RULE, "larger_than": True}]}, "larger_than", "whole number"),
        ({"rules": [{**RULE, "namespaces": "a"}]}, "namespaces", "list of places"),
        ({"rules": [{**RULE, "origins": [1]}]}, "origins", "list of texts"),
        ("lenient", "policy", "strict, standard, off"),
        (7, "policy", "A policy is a dict"),
    ],
)
def test_a_mistake_in_a_policy_names_the_rule_and_the_field(wrong: Any, field: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        load_policy(wrong)
    assert raised.value.field == field


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [("a.json", "{", "not valid JSON"), ("a.toml", "=", "not valid TOML"), ("a.json", "[]", "holds a list")],
)
def test_a_file_that_is_no_policy_is_an_error(tmp_path: Path, name: str, text: str, said: str) -> None:
    (tmp_path / name).write_text(text)

    with pytest.raises(InputError, match=said):
        load_policy(tmp_path / name)


def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_policy(tmp_path / "none.toml")


WEB = ToolMemory(content="x", tool_name="Web.Search", metadata=MemoryMetadata(namespace=("shop", "orders")))


@pytest.mark.parametrize(
    ("conditions", "concerned"),
    [
        ({"at_most": "tool"}, True),
        ({"at_most": "external"}, False),
        ({"at_least": "tool"}, True),
        ({"at_least": "agent"}, False),
        ({"origins": ["web.*"]}, True),
        ({"origins": ["web"]}, False),
        ({"origins": ["mail", "*search"]}, True),
        ({"memory_types": ["too?"]}, True),
        ({"memory_types": ["human"]}, False),
        ({"namespaces": ["shop"]}, True),
        ({"namespaces": ["shop/orders"]}, True),
        ({"namespaces": ["shop/orders/old"]}, False),
        ({"predicates": ["*"]}, False),
        ({"at_most": "tool", "memory_types": ["human"]}, False),
    ],
)
def test_a_rule_concerns_what_meets_all_of_its_conditions(conditions: dict[str, Any], concerned: bool) -> None:
    rule = load_policy({"rules": [{**RULE, **conditions}]}).rules[0]

    assert (rule.takes(trust_of(WEB)) and rule.concerns(WEB)) is concerned


def test_a_rule_knows_the_predicate_of_a_fact() -> None:
    rule = load_policy({"rules": [{**RULE, "predicates": ["bank_*"]}]}).rules[0]
    record = {"subject": "Ada", "predicate": "bank_account", "object": "DE12"}
    fact = MemoryItem(content="x", memory_type="fact", payload=record, payload_format="memoranda-fact/1")

    assert rule.concerns(fact)
    assert not rule.concerns(fact.model_copy(update={"payload": '{"predicate": "likes"}'}))
    assert not rule.concerns(fact.model_copy(update={"payload": "no JSON"}))
    assert not rule.concerns(HumanMemory(content="bank_account"))


def test_an_item_without_an_origin_has_an_empty_one() -> None:
    nameless = Policy("p", (Rule("r", Outcome.REFUSE, origins=("",)),)).rules[0]

    assert nameless.concerns(AIMemory(content="x"))
    assert not nameless.concerns(WEB)
