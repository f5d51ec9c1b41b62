"""The entry point: names the template, which is imported when it is first used."""

from __future__ import annotations

from recollect.hookspecs import TemplateSpec, hookimpl


@hookimpl
def recollect_templates() -> list[TemplateSpec]:
    """Offer the template ``facts``."""
    return [
        TemplateSpec(
            "facts",
            target="recollect_summary_facts.template:FactsTemplate",
            api=1,
            summary="Factual statements and verified information, each with its source",
        )
    ]
