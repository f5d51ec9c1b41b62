"""Where facts come from: extractors propose candidates from what was said, and :class:`Facts` decides."""

from __future__ import annotations

from memoranda_facts.extraction.extractors import (
    RECALLED,
    Extraction,
    FactExtractor,
    Usage,
    Utterance,
    installed_extractor,
)
from memoranda_facts.extraction.model import AnswersInJson, ModelExtractor
from memoranda_facts.extraction.observers import BackgroundExtraction
from memoranda_facts.extraction.rule_table import everyday_schema
from memoranda_facts.extraction.rules import RuleExtractor
from memoranda_facts.extraction.running import ExtractionReport, ExtractionRun

__all__ = [
    "RECALLED",
    "AnswersInJson",
    "BackgroundExtraction",
    "Extraction",
    "ExtractionReport",
    "ExtractionRun",
    "FactExtractor",
    "ModelExtractor",
    "RuleExtractor",
    "Usage",
    "Utterance",
    "everyday_schema",
    "installed_extractor",
]
