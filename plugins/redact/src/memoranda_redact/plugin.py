"""What this distribution adds to memoranda."""

from __future__ import annotations

from memoranda.plugins import ObserverSpec, hookimpl


@hookimpl
def memoranda_observers() -> list[ObserverSpec]:
    """Offer the redaction of personal data."""
    return [
        ObserverSpec(
            "redact",
            target="memoranda_redact.redactor:Redactor",
            api=1,
            summary="Hashes e-mail addresses and phone numbers before an item is stored.",
        )
    ]
