"""Receipts: what a model was shown, and whether it can be shown again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_receipts.receipts import Diff, Difference, Receipts
    from memoranda_receipts.recording import Recorder, Recording
    from memoranda_receipts.records import Receipt, ReceiptMemory, Shown, content_hash
    from memoranda_receipts.replaying import ItemChange, Replay, message_bytes
    from memoranda_receipts.revisions import Revisions, with_revisions

__all__ = [
    "Diff",
    "Difference",
    "ItemChange",
    "Receipt",
    "ReceiptMemory",
    "Receipts",
    "Recorder",
    "Recording",
    "Replay",
    "Revisions",
    "Shown",
    "content_hash",
    "message_bytes",
    "with_revisions",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "receipts": ["Diff", "Difference", "Receipts"],
        "recording": ["Recorder", "Recording"],
        "records": ["Receipt", "ReceiptMemory", "Shown", "content_hash"],
        "replaying": ["ItemChange", "Replay", "message_bytes"],
        "revisions": ["Revisions", "with_revisions"],
    },
)
