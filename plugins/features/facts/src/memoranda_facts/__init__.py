"""Facts: what is true now, since when, who said so, and how to take it back."""

from __future__ import annotations

from memoranda_facts.facts import Facts
from memoranda_facts.profile_lines import Outdated
from memoranda_facts.records import MANUAL, FactMemory, Record, Source
from memoranda_facts.results import Candidate, Fact, Receipt, Support, Why
from memoranda_facts.schema import Predicate, Schema
from memoranda_facts.values import Ref
from memoranda_facts.writing import FactConflictError

__all__ = [
    "MANUAL",
    "Candidate",
    "Fact",
    "FactConflictError",
    "FactMemory",
    "Facts",
    "Outdated",
    "Predicate",
    "Receipt",
    "Record",
    "Ref",
    "Schema",
    "Source",
    "Support",
    "Why",
]
