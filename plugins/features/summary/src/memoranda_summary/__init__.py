"""When to summarise, with which template, and how to swap messages for their summary and back."""

from __future__ import annotations

from memoranda_summary.compaction import CompactionResult, compact, plan
from memoranda_summary.generation import (
    Summarizer,
    SummaryConfig,
    SummaryResult,
    SummaryTemplate,
    TriggerResult,
    check_trigger,
    generate_summary,
    installed_summarizer,
)
from memoranda_summary.templates import PlainTemplate, SummaryTimeoutError, Template, installed_template
from memoranda_summary.transcript import Entry, Transcript, cleaned, entries, normalised, transcribe
from memoranda_summary.undoing import expand, undo

__all__ = [
    "CompactionResult",
    "Entry",
    "PlainTemplate",
    "Summarizer",
    "SummaryConfig",
    "SummaryResult",
    "SummaryTemplate",
    "SummaryTimeoutError",
    "Template",
    "Transcript",
    "TriggerResult",
    "check_trigger",
    "cleaned",
    "compact",
    "entries",
    "expand",
    "generate_summary",
    "installed_summarizer",
    "installed_template",
    "normalised",
    "plan",
    "transcribe",
    "undo",
]
