"""``memoranda stats`` and ``owners``: how much is stored, of what kind, and whose."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from memoranda.errors import InputError
from memoranda_commands import options
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import is_narrow, progress, say, show, show_json, table, visible

if TYPE_CHECKING:
    from memoranda.items import MemoryItem, MemoryMetadata
    from memoranda.store import Owner, Store


@dataclass(slots=True)
class Numbers:
    """The counts of a store."""

    items: int = 0
    archived: int = 0
    deleted: int | None = None
    characters: int = 0
    oldest: str | None = None
    newest: str | None = None
    types: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    spaces: Counter[str] = field(default_factory=Counter)
    sessions: Counter[tuple[str, str]] = field(default_factory=Counter)
    capabilities: list[str] = field(default_factory=list)

    def take(self, item: MemoryItem) -> None:
        """Count one item; items come oldest first."""
        self.items += 1
        self.archived += item.archived_by is not None
        self.characters += len(item.content)
        self.oldest = self.oldest or item.created_at
        self.newest = item.created_at
        self.types[item.memory_type] += 1
        self.statuses[item.status.value] += 1

    def take_owner(self, owner: MemoryMetadata, space: str | None) -> None:
        """Count whose an item is: a space's, if it lies in one, or else its user's."""
        if space is not None:
            self.spaces[space] += 1
        elif owner.user_id is not None:
            self.users[owner.user_id] += 1
        if owner.session_id is not None:
            self.sessions[owner.user_id or "", owner.session_id] += 1


@options.scoped
def stats(
    top: Annotated[int, option("--top", "How many of the busiest users to name.", min=0)] = 5,
    *,
    target: options.Target,
) -> None:
    """Count what is stored, by type, status and owner."""
    numbers = target.run(lambda store: _counted(store, target.metadata))
    if target.as_json:
        show_json(_as_json(numbers, top))
    else:
        _show(numbers, top)


async def _counted(store: Store, metadata: options.Owner) -> Numbers:
    from memoranda.store import Capability
    from memoranda.store.owners import DIRECTORY, space_of

    numbers = Numbers()
    numbers.capabilities = sorted(capability.value for capability in store.capabilities)
    total = await store.count(metadata=metadata)
    with progress("counting", total) as advance:
        async for item in store.scan(metadata=metadata):
            numbers.take(item)
            if item.metadata.user_id != DIRECTORY:  # Grants are nobody's memories.
                numbers.take_owner(item.metadata, space_of(item))
            advance(1)
    if Capability.DELETE in store.capabilities:
        numbers.deleted = await store.count(metadata=metadata, include_deleted=True) - numbers.items
    return numbers


def _as_json(numbers: Numbers, top: int) -> dict[str, Any]:
    return {
        "items": numbers.items,
        "archived": numbers.archived,
        "deleted": numbers.deleted,
        "characters": numbers.characters,
        "oldest": numbers.oldest,
        "newest": numbers.newest,
        "types": dict(numbers.types.most_common()),
        "statuses": dict(numbers.statuses.most_common()),
        "users": len(numbers.users),
        "spaces": len(numbers.spaces),
        "sessions": len(numbers.sessions),
        "busiest_users": dict(numbers.users.most_common(top)),
        "capabilities": numbers.capabilities,
    }


def _show(numbers: Numbers, top: int) -> None:
    def listed(counts: Counter[str]) -> str:
        return ", ".join(f"{name} {count:,}" for name, count in counts.most_common()) or "–"

    deleted = "this store removes for good" if numbers.deleted is None else f"{numbers.deleted:,}"
    busiest = Counter(dict(numbers.users.most_common(top)))
    rows = [
        ("items", f"{numbers.items:,}"),
        ("of them archived", f"{numbers.archived:,}"),
        ("deleted besides", deleted),
        ("characters", f"{numbers.characters:,}"),
        ("oldest", (numbers.oldest or "–")[:19]),
        ("newest", (numbers.newest or "–")[:19]),
        ("types", listed(numbers.types)),
        ("statuses", listed(numbers.statuses)),
        ("users", f"{len(numbers.users):,}"),
        *([("spaces", f"{len(numbers.spaces):,}")] if numbers.spaces else []),
        ("sessions", f"{len(numbers.sessions):,}"),
        ("busiest users", listed(busiest)),
        ("the store offers", ", ".join(numbers.capabilities)),
    ]
    show(table(("", {"no_wrap": True, "style": "bold"}), "", rows=[(name, visible(value)) for name, value in rows]))


_FIELDS = {name: f"{name}_id" for name in ("user", "session", "task", "agent")} | {"namespace": "namespace"}
"""The fields that name an owner, by their names on the command line."""


@options.scoped
def owners(
    by: Annotated[str, argument("BY", "user, session, task, agent or namespace.")] = "user",
    depth: Annotated[int | None, option("--depth", "Group namespaces by so many names.", min=1)] = None,
    limit: Annotated[int, option("--limit -n", "The most to show.", min=0)] = 50,
    offset: Annotated[int, option("--offset", "Skip so many first.", min=0)] = 0,
    *,
    target: options.Target,
) -> None:
    """List the owners, in order: how many items each has, and the times of the first and the last."""
    if by not in _FIELDS:
        raise InputError(f"Nothing is owned by a {by!r}; choose one of {', '.join(_FIELDS)}.", field="by")
    field = _FIELDS[by]

    async def read(store: Store) -> list[Owner]:
        found = store.owners(field, within=target.metadata, depth=depth, limit=limit, offset=offset)  # type: ignore[arg-type]  # one of its names
        return [owner async for owner in found]

    found = target.run(read)
    if target.as_json:
        show_json(
            [{"value": owner.value, "count": owner.count, "first": owner.first, "last": owner.last} for owner in found]
        )
    elif found:
        rows = [
            (visible(_named(owner)), f"{owner.count:,}", _minute(owner.first), _minute(owner.last)) for owner in found
        ]
        show(table(by, ("items", {"justify": "right"}), "first (UTC)", "last (UTC)", rows=rows))
        if len(found) == limit:
            say(f"These are {limit}; --limit and --offset show more.")
    else:
        say(f"No {by} has any items here.")


def _named(owner: Owner) -> str:
    from memoranda.store import namespace_key

    return owner.value if isinstance(owner.value, str) else namespace_key(owner.value).removesuffix("/")


def _minute(moment: str) -> str:
    return moment[: 10 if is_narrow() else 16].replace("T", " ")
