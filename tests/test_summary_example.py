"""The documented example of summaries, with the templates of this project installed."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memoranda import HumanMemory
from memoranda.errors import PluginNotFoundError
from memoranda.plugins import Registry
from memoranda_summary import SummaryConfig, SummaryTemplate, check_trigger, generate_summary, installed_template


class MySummarizer:
    def __init__(self) -> None:
        self.prompts: list[str] = []

    async def summarize(self, prompt: str) -> str:
        self.prompts.append(prompt)
        return "Summary: Discussion about Python programming."


async def test_the_documented_example_runs_as_documented() -> None:
    items = [HumanMemory(content=f"Message {i}") for i in range(25)]
    config = SummaryConfig(
        message_threshold=20, templates=(SummaryTemplate.CONVERSATION, SummaryTemplate.FACTS), keep_recent=4
    )
    trigger = check_trigger(items, config)
    assert trigger.triggered
    assert trigger.reason
    result = await generate_summary(items, config, MySummarizer())
    assert list(result.summaries) == ["conversation", "facts"]
    assert result.summaries["facts"] == "Summary: Discussion about Python programming."
    assert result.compressed_items == items[-4:]
    assert result.original_count == 25


@pytest.mark.parametrize(
    ("template", "focus"),
    [
        (SummaryTemplate.CONVERSATION, ("decisions", "action items", "important context")),
        (SummaryTemplate.FACTS, ("factual statements", "verified information")),
        (SummaryTemplate.PROFILES, ("user preferences", "personality traits", "background")),
    ],
)
async def test_each_default_prompt_asks_for_what_is_documented(
    template: SummaryTemplate, focus: tuple[str, ...]
) -> None:
    model = MySummarizer()
    prompt = SummaryConfig().get_prompt(template)
    await generate_summary([HumanMemory(content="hi")], SummaryConfig(templates=(template,), keep_recent=0), model)
    assert all(words in prompt for words in focus)
    assert model.prompts[0].startswith(prompt.partition("{content}")[0])


async def test_a_custom_prompt_replaces_the_default_one_and_keeps_the_form_of_the_answer() -> None:
    model = MySummarizer()
    config = SummaryConfig(templates=("facts",), prompts={"facts": "Only {dates}, please."}, keep_recent=0)
    await generate_summary([HumanMemory(content="hi")], config, model)
    assert model.prompts[0].startswith("Only {dates}, please.")
    assert SummaryConfig().get_prompt("facts") not in model.prompts[0]
    assert "one fact per line" in model.prompts[0]


@pytest.mark.parametrize("template", [*SummaryTemplate, "of-my-own"])
@given(before=st.text("{}%\\ab \n"), after=st.text("{}%\\ab \n"), placed=st.booleans())
def test_a_custom_prompt_stands_first_as_it_was_given(template: str, before: str, after: str, placed: bool) -> None:
    before, model = f"CUSTOM: {before}", MySummarizer()
    prompt = before + ("{content}" if placed else "") + after
    config = SummaryConfig(templates=(template,), prompts={template: prompt}, keep_recent=0)
    asyncio.run(generate_summary([HumanMemory(content="Is {it} 5 %?")], config, model))
    asked = model.prompts[0]
    start, end = asked.index("<transcript "), asked.index("\n</transcript ")
    assert asked.startswith(before if placed else prompt)
    assert asked[start:end].endswith(": Is {it} 5 %?")
    if placed:
        assert start == len(before)
        assert asked[end:].partition("\n</transcript ")[2].partition(">")[2].startswith(after)


@pytest.mark.parametrize("template", list(SummaryTemplate))
def test_a_template_that_is_not_installed_says_what_to_install(template: SummaryTemplate) -> None:
    with pytest.raises(PluginNotFoundError, match=rf"'memoranda\[summary-{template}\]'"):
        installed_template(template, Registry(sources=[]))


@pytest.mark.parametrize("template", SummaryTemplate)
async def test_a_default_prompt_says_where_the_text_goes(template: SummaryTemplate) -> None:
    prompt = SummaryConfig().get_prompt(template)

    assert prompt.count("{content}") == 1
    assert prompt.format(content="Ada: tea {or} coffee?").count("Ada: tea {or} coffee?") == 1

    summarizer = MySummarizer()
    given_back = SummaryConfig(templates=(template,), prompts={template: prompt}, keep_recent=1)
    await generate_summary([HumanMemory(content="I take tea."), HumanMemory(content="More.")], given_back, summarizer)
    assert "{content}" not in summarizer.prompts[0]
    assert summarizer.prompts[0].count("I take tea.") == 1
