"""Publications: copies of private items in a space, which name their source and go with it."""

from __future__ import annotations

from memoranda.errors import InputError
from memoranda.items import MemoryItem, MemoryMetadata, sources_of
from memoranda.store import Store
from memoranda.store.backend import items_of_ids
from memoranda.store.records import writing_records
from memoranda.store.spaces import space_of
from memoranda_spaces.access import Access
from memoranda_spaces.derivations import PUBLICATION, Link, made_from, read_links, remove_links, write_link
from memoranda_spaces.records import identity
from memoranda_spaces.shared_items import WRITTEN_TRUST

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
