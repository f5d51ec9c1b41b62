"""After what people say has changed in their lives, the rules let only the current value hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from facts_kit.staleness import read_changes, staleness
from memoranda_facts.extraction import RuleExtractor
from memoranda_facts.extraction.grammar import Person, pattern
from memoranda_facts.extraction.languages import FRENCH, GERMAN, SPANISH, Language
from memoranda_facts.extraction.lazy_patterns import needed
from memoranda_facts.extraction.rule_table import rules

CORPORA = Path(__file__).parents[1] / "bench" / "corpora" / "changes"
LEAST_CURRENT, MOST_WRONG = 0.85, 0.02


@pytest.mark.parametrize("half", ["developed", "kept_away"])
async def test_only_the_current_value_holds_after_a_change(half: str) -> None:
    """One half was written before the rules and not looked at while they were made."""
    cases = read_changes(CORPORA / f"{half}.txt")
    assert sum(bool(case.ended) for case in cases) >= 99
    assert sum(not case.ended for case in cases) >= 30
    found = await staleness(cases, RuleExtractor())
    assert found.current_share >= LEAST_CURRENT, found.failed
    assert found.wrong_share <= MOST_WRONG, found.failed


@pytest.mark.parametrize("language", ["en", "de", "es", "fr"])
async def test_every_language_has_changes_that_are_understood(language: str) -> None:
    cases = read_changes(CORPORA / "developed.txt")
    found = await staleness((case for case in cases if case.language == language), RuleExtractor())
    assert found.changes >= 3
    assert found.current_share >= LEAST_CURRENT, found.failed


def test_a_template_is_tried_on_every_text_that_it_matches() -> None:
    """Templates are compiled for texts that have the words they need: no text may be passed over."""
    cases = [case for half in ("developed", "kept_away") for case in read_changes(CORPORA / f"{half}.txt")]
    lines = [text for case in cases for text in (case.before, case.later)]
    matched = 0
    for person in (Person.FIRST, Person.THIRD):
        for rule in rules():
            for template in rule.templates:
                wanted = pattern(template, person)
                for line in filter(wanted.search, lines):
                    matched += 1
                    assert all(any(each in line for each in group) for group in needed(template)), (template, line)
    assert matched >= 300


@pytest.mark.parametrize("language", [GERMAN, SPANISH, FRENCH])
def test_every_template_of_a_language_knows_its_phrases(language: Language) -> None:
    """A template is compiled for the first text that has its words, so that a mistake would show late."""
    for rule in rules(language.name):
        for template in rule.templates:
            assert pattern(template, Person.FIRST, language.phrases)
