"""The entry point: names the template, which is imported when it is first used."""

from __future__ import annotations

from memoranda.plugins import TemplateSpec, hookimpl


@hookimpl
def memoranda_templates() -> list[TemplateSpec]:
    """Offer the template ``facts``."""
    return [
        TemplateSpec(
            "facts",
            target="memoranda_summary_facts.template:FactsTemplate",
            api=1,
            summary="Key points: factual statements and verified information, each with its source",
        )
    ]
