"""Earlier versions of items: ``memoranda.open(url, revisions=True)``, and reading a scope as it was at a moment."""

from __future__ import annotations

from memoranda_receipts.revisions.layer import RevisionsLayer, with_revisions
from memoranda_receipts.revisions.records import RevisionMemory, Revisions

__all__ = ["RevisionMemory", "Revisions", "RevisionsLayer", "with_revisions"]
