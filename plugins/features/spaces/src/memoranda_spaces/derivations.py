"""What was made from which space, how long it may last, and what was published where: copies of private items.

The directory has a record of each derivation and publication. Both are found by their user (``session_id``) and their
space (``task_id``), as grants are, so that ending a grant or removing a source finds what depends on it without reading
anybody's memories.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, sources_of
from memoranda.loops import in_slices
from memoranda.store import Capability, Store, copy_item
from memoranda.store.backend import EVERY_ITEM, Change, Filter, Layer, Write, items_of_ids, items_where, storable
from memoranda.store.lineage import erase
from memoranda.store.owners import DIRECTORY, check_user, space_of
from memoranda.store.records import writing_records
from memoranda.trust import Trust, trust_of
from memoranda_spaces.records import MOST_TRUST, WRITTEN_TRUST, Access, identity, user

logger = logging.getLogger(__name__)

MADE_FROM = "made_from"
"""The field of a derived item that names the spaces it was made from, each with the ids of the sources there."""


def made_from(item: MemoryItem) -> dict[str, list[str]]:
    """Return the spaces that an item was made from, each with the ids of its sources there."""
    found = (item.__pydantic_extra__ or {}).get(MADE_FROM)
    if not isinstance(found, dict):
        return {}
    return {str(space): [str(each) for each in ids] for space, ids in found.items() if isinstance(ids, (list, tuple))}


def derived_items(items: Iterable[MemoryItem]) -> list[MemoryItem]:
    """Return the items that were made from others."""
    return [item for item in items if sources_of(item)]


@dataclass(slots=True)
class Lineage:
    """What the sources of one item come to: the spaces they lie in, when the first of them ends, and their trust."""

    spaces: dict[str, list[str]] = field(default_factory=dict)
    ends: str | None = None
    trust: Trust = Trust.OPERATOR

    @classmethod
    def of(cls, item: MemoryItem, sources: Mapping[str, MemoryItem]) -> Lineage:
        """Return the lineage of an item whose sources, as far as they are there, are given by their ids.

        Of a source that is not there, such as a deleted one, the item's own word is kept. An item of a space has no
        other spaces, and ends with those of its sources that were made from others, such as publications.
        """
        lineage = cls()
        own_space = space_of(item)
        for source_id in sources_of(item):
            source = sources.get(source_id)
            if own_space is not None:
                if source is not None and sources_of(source):
                    lineage.end_by(source.expires_at)
                continue
            if source is None:
                lineage._add(made_from(item))
                continue
            space = space_of(source)
            lineage._add(made_from(source) if space is None else {space: [source_id]})
            if space is not None or made_from(source):
                lineage.end_by(source.expires_at)
                lineage.trust = min(lineage.trust, trust_of(source))
        return lineage

    def _add(self, spaces: Mapping[str, Iterable[str]]) -> None:
        for name, ids in spaces.items():
            known = self.spaces.setdefault(name, [])
            known += [each for each in ids if each not in known]

    def end_by(self, moment: str | None) -> None:
        """Take note of an end; None is none."""
        if moment is not None and (self.ends is None or moment < self.ends):
            self.ends = moment

    def given_to(self, item: MemoryItem) -> MemoryItem:
        """Return a copy of an item that names the spaces, and lasts no longer than what it was made from."""
        if not self.spaces and self.ends is None and not made_from(item):
            return item
        bounded = copy_item(item)
        if bounded.__pydantic_extra__ is None:
            object.__setattr__(bounded, "__pydantic_extra__", {})
        extra = bounded.__pydantic_extra__
        assert extra is not None
        extra.pop(MADE_FROM, None)
        if self.spaces:
            extra[MADE_FROM] = {name: sorted(ids) for name, ids in sorted(self.spaces.items())}
            # What was made from words of others is trusted no further than they are.
            bounded.__dict__["trust"] = str(min(trust_of(bounded), self.trust, MOST_TRUST))
        if self.ends is not None:
            ends = self.ends if bounded.expires_at is None else min(self.ends, bounded.expires_at)
            # Its own ttl would let it live on whenever it is read.
            bounded.__dict__.update(expires_at=ends, ttl=None)
        return bounded


IDS_PER_QUERY = 200
"""How many items are asked for by their ids in one query."""

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
    """Return the records of a kind of a user, or in a space, or all, without what cannot be read."""
    place = MemoryMetadata(user_id=DIRECTORY, session_id=owner, task_id=space)
    found = await directory.read(items_where(Filter(metadata=place, memory_type=kind, archived=True)))
    return [link for link in map(_link, found) if link is not None]


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
        directory = store.root.unobserved
        ended: dict[str, list[Link]] = {}
        lost: dict[str, set[str]] = {}
        for link in await read_links(directory, DERIVATION, space=space):
            gone = set(link.others) if sources is None else set(link.others).intersection(sources)
            ends_in_time = outlasting is not None and link.ends is not None and link.ends <= outlasting
            if gone and not ends_in_time and (users is None or link.user_id in users):
                lost.setdefault(link.user_id, set()).update(gone)
                ended.setdefault(link.user_id, []).append(link)
        purged: list[str] = []
        if sources and not _within_space.get():
            # What that purges comes back here, with all that was made from it: only users' items are looked for then.
            within = _within_space.set(True)
            try:
                purged += (await erase(store.root.space(space), sources, themselves=False)).purged
            finally:
                _within_space.reset(within)
        for user_id, ids in lost.items():
            own = store.root.scoped(user_id=user_id)
            purged += (await erase(own, ids)).purged
            purged += await _end_links(own, ended[user_id], ids)
        return purged


async def _end_links(own: Store, links: Sequence[Link], lost: Collection[str]) -> Sequence[str]:
    """Remove records of derivations from one space once their lost sources were erased, and return what else goes.

    What was made from an item that is gone itself names no lost source, and says nonetheless what it comes from: it
    goes, too. What other sources in the space still support keeps its record, with these.
    """
    named = sorted({link.item for link in links})
    left: list[MemoryItem] = []
    async for some in in_slices(named, IDS_PER_QUERY):
        where = {"id": {"$in": some}}
        left += [item async for item in own.scan(include_deleted=Capability.DELETE in own.capabilities, where=where)]
    from_here = {item.id: made_from(item).get(links[0].space, []) for item in left}
    behind = [name for name, sources in from_here.items() if not set(lost).isdisjoint(sources)]
    purged = (await erase(own, behind)).purged if behind else ()
    kept = {name for name, sources in from_here.items() if sources}.difference(purged)
    directory, notes_end = own.root.unobserved, own.root.lifetimes.note
    for link in links:
        if link.item in kept:
            left_over = replace(link, others=tuple(from_here[link.item]))
            await write_link(directory, DERIVATION, left_over, expires=notes_end)
    await remove_links(directory, [link.id for link in links if link.item not in kept])
    return purged


def _link(item: MemoryItem) -> Link | None:
    try:
        held: dict[str, Any] = json.loads(item.payload or "{}")
        others = tuple(str(each) for each in held.get("others", ()))
        made = str(held.get("item", ""))
        owner = str(item.metadata.session_id)
        if item.memory_type == DERIVATION:
            check_user(owner.partition(":")[2])  # What they made is looked for in their scope.
    except (AttributeError, TypeError, ValueError):
        logger.error("The stored item %r cannot be read as a record of spaces. It is left out.", item.id)
        return None
    return Link(item.id, owner, str(item.metadata.task_id), made, others, item.expires_at)


_SPOKEN = ("human", "ai", "item")
"""The types that a copy keeps; anything else becomes a plain item."""


def publication_id(root: Store, item_id: str, space: str) -> str:
    """Return the id of the copy of an item in a space."""
    return root.derived_id("\0".join((PUBLICATION, item_id, space)))


async def publish(root: Store, access: Access | None, item: MemoryItem, space: str) -> MemoryItem:
    """Copy an item into a space, and return the copy.

    ``access`` is that of whoever publishes it; with None, an operator publishes it in the name of its owner.
    """
    if space_of(item) is not None:
        raise InputError(
            "The item lies in a space already. Only an item of a private scope is published.", field="item"
        )
    behind = await _spaces_behind(root, item)
    if behind:
        names = ", ".join(sorted(behind))
        raise InputError(
            f"The item was made from items of a space ({names}): only who may read those may read it.", field="item"
        )
    owner = item.metadata if access is None else access.scope
    if access is not None:
        await access.check(space, "write")
    place = root.space(space)
    copy = _copy(root, item, space, identity(owner))
    own = root.derived_id("\0".join((PUBLICATION, "link", item.id, space)))
    link = Link(own, identity(owner), space, item.id, (copy.id,), copy.expires_at)
    # The note comes first, so that no copy is ever without one.
    await write_link(root.unobserved, PUBLICATION, link, expires=root.lifetimes.note)
    with writing_records(PUBLICATION):
        await place.add(copy)
    stored = await place.get(copy.id)
    still = access is None or space in await access.spaces((space,), "write")
    if stored is None or not still or await root.get(item.id) is None:
        await unpublish(root, item.id, space, None)
        raise InputError("The item was purged, or the grant ended, while it was being published.", field="item")
    return stored


async def _spaces_behind(root: Store, item: MemoryItem) -> set[str]:
    """Return the spaces that an item was made from, at any remove, as far as its sources are there."""
    found, waiting, seen = {*made_from(item)}, sources_of(item), {item.id}
    while waiting:
        sources = await root.unobserved.read(items_of_ids(sorted(set(waiting) - seen)))
        seen.update(waiting)
        waiting = []
        for source in sources:
            space = space_of(source)
            found.update(made_from(source) if space is None else (space,))
            waiting += [each for each in sources_of(source) if space is None and each not in seen]
    return found


async def unpublish(root: Store, item_id: str, space: str, own: str | None) -> bool:
    """Purge the copy of an item in a space, and return whether there was one; ``own`` is who must have published it."""
    copies = [
        link
        for link in await read_links(root.unobserved, PUBLICATION, space=space)
        if link.item == item_id and (own is None or link.owner == own)
    ]
    if not copies:
        return False
    purged = sum([await root.space(space).purge(copy) for link in copies for copy in link.others])
    await remove_links(root.unobserved, [link.id for link in copies])
    return purged > 0


def _copy(root: Store, item: MemoryItem, space: str, origin: str) -> MemoryItem:
    kind = item.memory_type if item.memory_type in _SPOKEN else "item"
    return MemoryItem(
        id=publication_id(root, item.id, space),
        content=item.content,
        memory_type=kind,
        name=item.name,
        created_at=item.created_at,
        metadata=MemoryMetadata(),
        trust=str(WRITTEN_TRUST),
        origin=origin,
        expires_at=item.expires_at,
        sources=[item.id],
    )
