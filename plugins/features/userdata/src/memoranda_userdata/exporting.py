"""Write items of a store to a JSON Lines file, all or nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from memoranda.store.lineage import hidden_ids
from memoranda_commands.files import whole_file
from memoranda_userdata.export_format import Digest, footer, header, line_of

if TYPE_CHECKING:
    from memoranda.items import MemoryMetadata
    from memoranda.store import Moment, Store


@dataclass(frozen=True, slots=True)
class Exported:
    """How many items an export has, and the digest that its last line seals them with."""

    count: int
    digest: str


async def export(
    store: Store,
    target: str | Path | IO[str],
    *,
    metadata: MemoryMetadata | None = None,
    since: Moment | None = None,
    until: Moment | None = None,
    where: Mapping[str, Any] | None = None,
    deleted: bool = False,
    advance: Callable[[int], None] = lambda number: None,
) -> Exported:
    """Write items to a JSON Lines file in the order of their adding, and return their number and digest.

    ``target`` is a path or an open text file. A path gets the file once it is complete, readable by its owner only;
    what was there is replaced. Archived items are included, deleted ones with ``deleted=True``. The filters mean
    what they mean in ``store.search``. ``advance`` is called with the number of items just written.

    :func:`import_` and the command ``memoranda import`` read the file into any store. Raises FileError, naming the
    path, if it cannot be written.
    """
    digest, written = Digest(), 0
    opened = whole_file(Path(target)) if isinstance(target, (str, Path)) else nullcontext(target)
    with opened as output:
        async for line in export_lines(
            store, store.label, digest, metadata=metadata, since=since, until=until, where=where, deleted=deleted
        ):
            output.write(line)
            advance(digest.count - written)
            written = digest.count
    return Exported(digest.count, digest.text)


async def export_lines(
    store: Store,
    name: str,
    digest: Digest,
    *,
    metadata: MemoryMetadata | None = None,
    deleted: bool = False,
    **wanted: Any,
) -> AsyncIterator[str]:
    """Yield the lines of an export of a store of this name: a header, the wanted items as they were added, and a seal.

    ``digest`` counts and hashes the items on the way. ``wanted`` are further filters of ``store.scan``.
    """
    hidden = await hidden_ids(store, metadata) if deleted else set()
    yield header(store=name) + "\n"
    async for item in store.scan(metadata=metadata, include_deleted=deleted, order="added", **wanted):
        digest.take(item, hidden=item.id in hidden)
        yield line_of(item, hidden=item.id in hidden) + "\n"
    yield footer(digest) + "\n"
