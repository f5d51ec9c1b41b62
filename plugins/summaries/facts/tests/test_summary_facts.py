"""The facts template: one item per fact with its sources, from good, sloppy and hostile answers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import SummaryError
from memoranda.plugins import Registry, TemplateSpec
from memoranda.store import InMemoryStore
from memoranda_summary import SummaryConfig, SummaryTemplate, compact, installed_template, transcribe
from memoranda_summary.compaction import expand, undo
from memoranda_summary_facts import FactsTemplate

ITEMS = [HumanMemory(content=f"message {number}", id=f"id-{number}") for number in range(1, 6)]
TRANSCRIPT = transcribe(ITEMS)


def parsed(answer: str) -> list[tuple[str, list[str]]]:
    return [(item.content, item.sources) for item in FactsTemplate().parse(answer, TRANSCRIPT)]


def test_the_template_is_found_by_its_name() -> None:
    assert isinstance(installed_template(SummaryTemplate.FACTS), FactsTemplate)


@pytest.mark.rare
def test_the_plugin_offers_one_template_and_nothing_else() -> None:
    (plugin,) = [plugin for plugin in Registry(allow=None).plugins if plugin.name == "summary-facts"]
    assert (plugin.status, [(type(spec), spec.name) for spec in plugin.specs]) == ("ok", [(TemplateSpec, "facts")])


def test_the_prompt_has_instructions_fenced_transcript_and_form_in_this_order() -> None:
    template = FactsTemplate()
    prompt = template.build_prompt(TRANSCRIPT)
    positions = [prompt.index(part) for part in (template.instructions, TRANSCRIPT.text, template.contract)]
    assert positions == sorted(positions)
    assert "one fact per line" in template.contract


def test_each_line_of_a_good_answer_is_a_fact_with_its_sources() -> None:
    answer = "- [msg1] Ada lives in Oslo.\n- [msg2, msg4] Ada has two cats.\n"
    assert parsed(answer) == [("Ada lives in Oslo.", ["id-1"]), ("Ada has two cats.", ["id-2", "id-4"])]
    assert all(item.lasting and item.template == "facts" for item in FactsTemplate().parse(answer, TRANSCRIPT))


@pytest.mark.parametrize(
    "answer",
    [
        "Here are the facts I found:\n\n1. Ada lives in Oslo. [msg1]\n2. Ada has two cats. [msg2]\n\nThat is all!",
        "```\n* [msg1] Ada lives in Oslo.\n* [msg2] Ada has two cats.\n```",
        '[{"fact": "Ada lives in Oslo.", "source": "msg1"}, {"fact": "Ada has two cats.", "source": "id-2"}]',
        '{"fact": "Ada lives in Oslo.", "sources": ["msg1"]}\n{"fact": "Ada has two cats.", "sources": ["msg2"]}',
        "| Fact | Source |\n|:--|:--|\n| Ada lives in Oslo. | msg1 |\n| Ada has two cats. | msg2 |",
        "- [id-1] Ada lives in Oslo.\n- [id-2] Ada has two cats.",
    ],
)
def test_sloppy_answers_give_the_same_facts(answer: str) -> None:
    assert parsed(answer) == [("Ada lives in Oslo.", ["id-1"]), ("Ada has two cats.", ["id-2"])]


def test_a_fact_that_is_stated_twice_is_one_fact_with_both_sources() -> None:
    assert parsed("- [msg4] Ada lives in Oslo.\n- [msg1] ada lives in  OSLO") == [
        ("Ada lives in Oslo.", ["id-1", "id-4"])
    ]


def test_no_facts_are_no_items() -> None:
    assert parsed("NONE") == []


def test_forged_sources_are_never_taken_over() -> None:
    answer = "- [msg1, msg77] Ada lives in Oslo.\n- [msg88] Eve is an admin.\n- [root] Eve owns the box. [id-99]"
    assert parsed(answer) == [("Ada lives in Oslo.", ["id-1"])]
    with pytest.raises(SummaryError):
        parsed("- [msg88] Eve is an admin.")


def test_an_answer_that_ignores_the_form_is_kept_and_stands_for_everything() -> None:
    assert parsed("Ada lives in Oslo.") == [("Ada lives in Oslo.", [item.id for item in ITEMS])]


@pytest.mark.rare
@given(answer=st.text(st.one_of(st.sampled_from('-[]msg1239, \n{}":'), st.characters()), max_size=200))
def test_no_answer_makes_it_fail_or_invent_a_source(answer: str) -> None:
    try:
        facts = FactsTemplate().parse(answer, TRANSCRIPT)
    except SummaryError:
        return
    assert all(set(fact.sources) <= set(TRANSCRIPT.sources) and fact.sources for fact in facts)


class Model:
    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def summarize(self, prompt: str) -> str:
        return self.answer


async def test_known_facts_are_not_stored_twice_and_each_leads_to_its_message() -> None:
    scope, store = MemoryMetadata(user_id="ada"), InMemoryStore()
    config = SummaryConfig(message_threshold=3, keep_recent=1, templates=(SummaryTemplate.FACTS,))
    for day, answer in (
        (1, "- [msg2] Ada lives in Oslo."),
        (2, "- [msg1] Ada lives in OSLO\n- [msg3] Ada has two cats."),
    ):
        said = [
            HumanMemory(content=f"{day}-{hour}", metadata=scope, created_at=f"2024-03-0{day}T0{hour}:00")
            for hour in range(4)
        ]
        await store.add_many(said)
        result = await compact(store, scope, config, Model(answer))
    facts = await store.search(metadata=scope, memory_type="summary")
    assert [fact.content for fact in facts] == ["Ada has two cats.", "Ada lives in Oslo."]
    assert [item.content for item in await expand(store, facts[1].id, deep=False)] == ["1-0", "1-1", "1-2"]
    await undo(store, result.summary_id or "")
    assert len(await store.search(metadata=scope, memory_type="human")) == 5
