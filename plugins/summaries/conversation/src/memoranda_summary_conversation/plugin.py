"""The entry point: names the template, which is imported when it is first used."""

from __future__ import annotations

from memoranda.plugins import TemplateSpec, hookimpl


@hookimpl
def memoranda_templates() -> list[TemplateSpec]:
    """Offer the template ``conversation``."""
    return [
        TemplateSpec(
            "conversation",
            target="memoranda_summary_conversation.template:ConversationTemplate",
            api=1,
            summary="Key decisions, action items and important context of a conversation",
        )
    ]
