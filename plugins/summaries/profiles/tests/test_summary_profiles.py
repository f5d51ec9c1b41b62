"""The profiles template: one item per trait with value and sources, from good, sloppy and hostile answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import SummaryError
from memoranda.plugins import Registry, TemplateSpec
from memoranda.store import InMemoryStore
from memoranda_summary import SummaryConfig, SummaryTemplate, compact, installed_template, transcribe
from memoranda_summary_profiles import ProfilesTemplate

ITEMS = [HumanMemory(content=f"message {number}", id=f"id-{number}") for number in range(1, 6)]
TRANSCRIPT = transcribe(ITEMS)


def parsed(answer: str) -> list[tuple[str, str, list[str]]]:
    items = ProfilesTemplate().parse(answer, TRANSCRIPT)
    return [((item.model_extra or {})["trait"], (item.model_extra or {})["value"], item.sources) for item in items]


def test_the_template_is_found_by_its_name() -> None:
    assert isinstance(installed_template(SummaryTemplate.PROFILES), ProfilesTemplate)


def test_the_plugin_offers_one_template_and_nothing_else() -> None:
    (plugin,) = [plugin for plugin in Registry(allow=None).plugins if plugin.name == "summary-profiles"]
    assert (plugin.status, [(type(spec), spec.name) for spec in plugin.specs]) == ("ok", [(TemplateSpec, "profiles")])


def test_the_prompt_has_instructions_fenced_transcript_and_form_in_this_order() -> None:
    template = ProfilesTemplate()
    prompt = template.build_prompt(TRANSCRIPT)
    positions = [prompt.index(part) for part in (template.instructions, TRANSCRIPT.text, template.contract)]
    assert positions == sorted(positions)
    assert "trait: value" in template.contract


def test_each_line_of_a_good_answer_is_a_trait_with_value_and_sources() -> None:
    answer = "- [msg1] favourite drink: tea\n- [msg2, msg4] wants answers: short, in German\n"
    assert parsed(answer) == [
        ("favourite drink", "tea", ["id-1"]),
        ("wants answers", "short, in German", ["id-2", "id-4"]),
    ]
    items = ProfilesTemplate().parse(answer, TRANSCRIPT)
    assert [item.content for item in items] == ["favourite drink: tea", "wants answers: short, in German"]
    assert all(item.lasting and item.template == "profiles" for item in items)


TABLE = """\
| Trait | Value | Source |
|---|---|---|
| favourite drink | tea | msg1 |
| works at | the harbour | msg2 |"""

OBJECTS = """\
{"trait": "favourite drink", "value": "tea", "id": "msg1"}
{"trait": "works at", "value": "the harbour", "id": "msg2"}"""


@pytest.mark.parametrize(
    "answer",
    [
        "Sure, here is the profile:\n\n1. **favourite drink**: tea [msg1]\n2. **works at**: the harbour [msg2]",
        "```\n- [msg1] favourite drink = tea\n- [msg2] works at: the harbour\n```",
        TABLE,
        "favourite drink | tea | msg1\nworks at | the harbour | msg2",
        OBJECTS,
        f"[{OBJECTS}]".replace("\n", ",\n").replace('"id": "msg2"', '"sources": ["id-2"]'),
        "- [msg1] favourite drink - tea\n- [msg2] works at → the harbour",
    ],
)
def test_sloppy_answers_give_the_same_traits(answer: str) -> None:
    assert parsed(answer) == [("favourite drink", "tea", ["id-1"]), ("works at", "the harbour", ["id-2"])]


def test_values_keep_their_colons() -> None:
    assert parsed("- [msg1] wakes up: at 6:30, always") == [("wakes up", "at 6:30, always", ["id-1"])]


def test_the_same_trait_and_value_is_one_item_with_all_sources() -> None:
    assert parsed("- [msg4] drink: tea\n- [msg1] Drink: TEA.") == [("drink", "tea", ["id-1", "id-4"])]


def test_a_line_that_names_no_trait_is_kept_as_a_note() -> None:
    assert parsed("- [msg1] Ada is patient") == [("note", "Ada is patient", ["id-1"])]


def test_nothing_to_report_is_no_items() -> None:
    assert parsed("NONE") == []


def test_forged_sources_are_never_taken_over() -> None:
    assert parsed("- [msg1, msg77] drink: tea\n- [msg88] role: admin") == [("drink", "tea", ["id-1"])]
    with pytest.raises(SummaryError):
        parsed("- [msg88] role: admin")


@given(answer=st.text(st.one_of(st.sampled_from('-[]msg1239, \n{}":|='), st.characters()), max_size=200))
def test_no_answer_makes_it_fail_or_invent_a_source(answer: str) -> None:
    try:
        traits = ProfilesTemplate().parse(answer, TRANSCRIPT)
    except SummaryError:
        return
    assert all(set(trait.sources) <= set(TRANSCRIPT.sources) and trait.sources for trait in traits)


class Model:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def summarize(self, prompt: str) -> str:
        return self.answer


async def test_known_traits_are_not_stored_twice_and_changed_ones_are_added() -> None:
    scope, store = MemoryMetadata(user_id="ada"), InMemoryStore()
    config = SummaryConfig(message_threshold=3, keep_recent=1, templates=(SummaryTemplate.PROFILES,))
    for day, answer in ((1, "- [msg2] drink: tea"), (2, "- [msg1] Drink: Tea\n- [msg3] drink: coffee")):
        await store.add_many(
            HumanMemory(content=f"{day}-{hour}", metadata=scope, created_at=f"2024-03-0{day}T0{hour}:00")
            for hour in range(4)
        )
        await compact(store, scope, config, Model(answer))
    traits = await store.search(metadata=scope, memory_type="summary")
    assert [trait.content for trait in traits] == ["drink: coffee", "drink: tea"]
    assert [(trait.model_extra or {})["value"] for trait in traits] == ["coffee", "tea"]
