"""The directory's other records: what was made from which space, and what was published where.

Both are found by their user (``session_id``) and their space (``task_id``), as grants are, so that ending a grant or
removing a source finds what depends on it without reading anybody's memories.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from memoranda.items import MemoryItem, MemoryMetadata
from memoranda.store import Store
from memoranda.store.backend import EVERY_ITEM, Change, Filter, Layer, Write, items_where, storable
from memoranda.store.lineage import erase
from memoranda.store.records import writing_records
from memoranda.store.spaces import DIRECTORY
from memoranda_spaces.derived import Lineage
from memoranda_spaces.grantees import user

DERIVATION = "derivation"
PUBLICATION = "publication"

_within_space: ContextVar[bool] = ContextVar("memoranda_spaces_within", default=False)
"""True while what was made in a space from items of it is being withdrawn."""


@dataclass(frozen=True, slots=True)
class Link:
    """A record of the directory: an item of a user, and the items that it comes from, or goes to, in a space."""

    id: str
    owner: str
    """The key of the user, such as ``"user:ada"``."""
    space: str
    item: str
    others: tuple[str, ...]
    ends: str | None = None
    """When the item ends by itself."""

    @property
    def user_id(self) -> str:
        """The id of the user."""
        return self.owner.partition(":")[2]


async def write_link(directory: Layer, kind: str, link: Link, *, expires: Callable[[str | None], None]) -> None:
    """Store a record of the directory, in the place of an earlier one of the same id."""
    item = MemoryItem(
        id=link.id,
        content="",
        memory_type=kind,
        metadata=MemoryMetadata(user_id=DIRECTORY, session_id=link.owner, task_id=link.space),
        archived_by=link.id,
        expires_at=link.ends,
        payload=json.dumps({"item": link.item, "others": link.others}),
        payload_format=f"memoranda.{kind}",
    )
    expires(link.ends)
    await directory.write(Write([directory.prepare(storable(item))]))


async def read_links(directory: Layer, kind: str, *, owner: str | None = None, space: str | None = None) -> list[Link]:
    """Return the records of a kind of a user, or in a space, or all."""
    place = MemoryMetadata(user_id=DIRECTORY, session_id=owner, task_id=space)
    found = await directory.read(items_where(Filter(metadata=place, memory_type=kind, archived=True)))
    return [_link(item) for item in found]


async def remove_links(directory: Layer, ids: Iterable[str]) -> None:
    """Remove records of the directory for good."""
    gone = list(ids)
    if gone:
        await directory.write(Write(change=Change("purge", EVERY_ITEM, gone)))


async def note_derivations(
    directory: Layer,
    derived_id: Callable[[str], str],
    user_id: str,
    lineages: Mapping[str, Lineage],
    expires: Callable[[str | None], None],
) -> None:
    """Note what is about to be made from items of spaces: before it is there, so that none is ever without a note."""
    owner = user(user_id).key
    for item_id, lineage in lineages.items():
        for space, sources in lineage.spaces.items():
            own = derived_id("\0".join((DERIVATION, item_id, space)))
            link = Link(own, owner, space, item_id, tuple(sources), lineage.ends)
            await write_link(directory, DERIVATION, link, expires=expires)


async def withdraw(
    store: Store,
    space: str,
    *,
    users: Collection[str] | None = None,
    sources: Collection[str] | None = None,
    outlasting: str | None = None,
) -> list[str]:
    """Purge what was made from a space, and what was made from that, and return the ids.

    ``users`` are those whose derived items are meant, None for all; ``sources`` are the items of the space that are
    gone, None for all. What was made from those in the space itself goes, too. With ``outlasting``, only what would
    live on after that moment goes. What other sources still support stays, without these: see
    :func:`memoranda.store.lineage.erase`.
    """
    with writing_records(DERIVATION):
        return await _withdraw(store, space, users, sources, outlasting)


async def _withdraw(
    store: Store, space: str, users: Collection[str] | None, sources: Collection[str] | None, outlasting: str | None
) -> list[str]:
    directory = store.root.unobserved
    lost: dict[str, set[str]] = {}
    ended = []
    for link in await read_links(directory, DERIVATION, space=space):
        gone = set(link.others) if sources is None else set(link.others).intersection(sources)
        ends_in_time = outlasting is not None and link.ends is not None and link.ends <= outlasting
        if gone and not ends_in_time and (users is None or link.user_id in users):
            lost.setdefault(link.user_id, set()).update(gone)
            ended.append(link.id)
    purged: list[str] = []
    if sources and not _within_space.get():
        # What that purges comes back here, with all that was made from it: only users' items are looked for then.
        within = _within_space.set(True)
        try:
            purged += (await erase(store.root.space(space), sources, themselves=False)).purged
        finally:
            _within_space.reset(within)
    for user_id, ids in lost.items():
        purged += (await erase(store.root.scoped(user_id=user_id), ids)).purged
    await remove_links(directory, ended)
    return purged


def _link(item: MemoryItem) -> Link:
    held: dict[str, Any] = json.loads(item.payload or "{}")
    others = tuple(str(each) for each in held.get("others", ()))
    owner, space = str(item.metadata.session_id), str(item.metadata.task_id)
    return Link(item.id, owner, space, str(held.get("item", "")), others, item.expires_at)
