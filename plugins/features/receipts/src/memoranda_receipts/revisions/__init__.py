"""Earlier versions of items: ``memoranda.open(url, revisions=True)``, and reading a scope as it was at a moment."""

from __future__ import annotations

from memoranda_receipts.revisions.opening import with_revisions
from memoranda_receipts.revisions.reading import RevisionsHandle
from memoranda_receipts.revisions.records import RevisionMemory, Revisions
from memoranda_receipts.revisions.store import RevisionsStore

__all__ = ["RevisionMemory", "Revisions", "RevisionsHandle", "RevisionsStore", "with_revisions"]
