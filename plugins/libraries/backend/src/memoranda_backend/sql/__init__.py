"""What SQL backends share: how an item becomes a row, and the statements, written once for every dialect.

No driver is imported here. A backend brings a :class:`Dialect`, its connections and its schema's text.
"""

from __future__ import annotations

from memoranda_backend.sql.dialect import Dialect, Parameters
from memoranda_backend.sql.rows import (
    ITEM_COLUMNS,
    PAYLOAD_COLUMNS,
    Row,
    further_text,
    pack,
    replacing_text,
    unpack,
    unpack_payload,
    unpack_readable,
)
from memoranda_backend.sql.statements import Change, Statement, Statements, trust_text, union_all

__all__ = [
    "ITEM_COLUMNS",
    "PAYLOAD_COLUMNS",
    "Change",
    "Dialect",
    "Parameters",
    "Row",
    "Statement",
    "Statements",
    "further_text",
    "pack",
    "replacing_text",
    "trust_text",
    "union_all",
    "unpack",
    "unpack_payload",
    "unpack_readable",
]
