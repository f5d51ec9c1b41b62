"""The entry point: names what this distribution adds to memoranda; it is imported when it is used."""

from __future__ import annotations

from memoranda.plugins import CommandSpec, FactExtractorSpec, ItemTypeSpec, ObserverSpec, hookimpl


@hookimpl
def memoranda_item_types() -> list[ItemTypeSpec]:
    """Offer the item type of facts."""
    return [
        ItemTypeSpec(
            "fact",
            target="memoranda_facts.records:FactMemory",
            api=1,
            summary="A change of what is known about a subject.",
        )
    ]


@hookimpl
def memoranda_fact_extractors() -> list[FactExtractorSpec]:
    """Offer the extractors."""
    return [
        FactExtractorSpec(
            "rules",
            target="memoranda_facts.extraction.rules:RuleExtractor",
            api=1,
            summary="Rules without a model, most of them for English: they would rather miss a fact than invent one.",
        ),
        FactExtractorSpec(
            "model",
            target="memoranda_facts.extraction.model:ModelExtractor",
            api=1,
            summary="A model behind OpenAI's API; what it proposes is checked against what was said.",
        ),
    ]


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the observer that tells prompts what is known: ``memoranda.open(url, facts="rules")``."""
    target = "memoranda_facts.extraction.observers:KnownFacts"
    summary = "Reads what users say for facts, and tells every prompt what holds now."
    return [ObserverSpec("facts", target=target, api=1, summary=summary, option=True)]


@hookimpl
def memoranda_commands() -> list[CommandSpec]:
    """Offer the command."""
    return [
        CommandSpec(
            "facts",
            target="memoranda_facts.commands:app",
            api=1,
            summary="What is true now, since when and why.",
            section="Facts",
            examples=(
                "facts list --user ada",
                "facts set Ada lives_in Paris --since 2026-03 --user ada",
                "facts why fact-4c1f --user ada",
                "facts extract --user ada",
            ),
        )
    ]
