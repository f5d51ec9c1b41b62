"""An owner's memories as a file that ``memoranda import`` reads: JSON Lines with a header and a seal."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator

from memoranda.items import MemoryMetadata
from memoranda.store import BaseStore, dump_item

_FORMAT = 1


async def exported(store: BaseStore, metadata: MemoryMetadata | None) -> AsyncIterator[str]:
    """Yield the lines of an export, archived items included, in the order in which they were added."""
    yield json.dumps({"memoranda": "export", "format": _FORMAT}) + "\n"
    digest, number = hashlib.sha256(), 0
    async for item in store.scan(metadata=metadata, order="added"):
        fields = dump_item(item)
        yield json.dumps(fields, ensure_ascii=False, separators=(",", ":")) + "\n"
        del fields["version"]  # Each store counts versions for itself, so that the seal leaves them out.
        sealed = json.dumps(fields, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        digest.update(hashlib.sha256(sealed.encode()).digest())
        number += 1
    yield json.dumps({"memoranda": "end", "count": number, "digest": digest.hexdigest()}) + "\n"
