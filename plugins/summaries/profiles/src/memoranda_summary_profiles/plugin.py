"""The entry point: names the template, which is imported when it is first used."""

from __future__ import annotations

from memoranda.plugins import TemplateSpec, hookimpl


@hookimpl
def memoranda_templates() -> list[TemplateSpec]:
    """Offer the template ``profiles``."""
    return [
        TemplateSpec(
            "profiles",
            target="memoranda_summary_profiles.template:ProfilesTemplate",
            api=1,
            summary="Preferences, traits and background of the people who speak, each with its source",
        )
    ]
