"""Move users' data out of a store and back in, and erase it: export, import and forget, on every backend."""

from __future__ import annotations

from memoranda.store.lineage import Erasure, erase, hidden_ids
from memoranda_commands.files import FileError
from memoranda_commands.stores import similar_users
from memoranda_userdata.erasing import (
    ErasureReceipt,
    KeyPerUser,
    Revocation,
    count_user,
    descendants,
    erase_user,
    find_revoked,
    forget,
    revoke,
    take_back,
    undo_revocation,
)
from memoranda_userdata.export_format import (
    TIMES,
    Digest,
    Exported,
    Incoming,
    Line,
    OnConflict,
    Stamp,
    export,
    export_lines,
    is_marked,
    lasting_id,
    read_lines,
    state_of,
)
from memoranda_userdata.importing import ItemFile, import_, open_binary, text_of
from memoranda_userdata.transfer import BATCH, Arrivals, Transfer, TransferCounts, hidden_items

__all__ = [
    "BATCH", "TIMES", "Arrivals", "Digest", "Erasure", "ErasureReceipt", "Exported", "FileError", "Incoming",
    "ItemFile", "KeyPerUser", "Line", "OnConflict", "Revocation", "Stamp", "Transfer", "TransferCounts", "count_user",
    "descendants", "erase", "erase_user", "export", "export_lines", "find_revoked", "forget", "hidden_ids",
    "hidden_items", "import_", "is_marked", "lasting_id", "open_binary", "read_lines", "revoke", "similar_users",
    "state_of", "take_back", "text_of", "undo_revocation",
]  # fmt: skip
