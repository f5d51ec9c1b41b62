"""``memoranda get``, ``search`` and ``history``: read what is stored."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

from memoranda_commands import options
from memoranda_commands.exits import CommandError, ExitCode
from memoranda_commands.options import argument, option
from memoranda_commands.terminal import did_you_mean, say, show, show_json

if TYPE_CHECKING:
    from memoranda.items import MemoryItem
    from memoranda.store import RankedItem, Store


class Mode(StrEnum):
    """How a query is understood."""

    SUBSTRING = "substring"
    TEXT = "text"
    SEMANTIC = "semantic"
    HYBRID = "hybrid"


class Order(StrEnum):
    """The time that decides which items are newest."""

    CREATED = "created"
    ADDED = "added"
    UPDATED = "updated"


Type = Annotated[str | None, option("--type", "Only items of this type.", options.FILTERS)]
Status = Annotated[str | None, option("--status", "Only items of this status.", options.FILTERS)]


@options.scoped
def get(
    item_id: Annotated[str, argument("ID", "The item's id, or how it begins.")],
    *,
    target: options.Target,
) -> None:
    """Show one memory by its id; exit code 3 if there is none.

    The beginning of an id is enough if no other id begins like it; otherwise those that do are listed.
    """
    from memoranda.store import dump_item
    from memoranda_commands.render import details

    async def found(store: Store) -> MemoryItem | None:
        owner = target.metadata
        return await store.get(item_id, metadata=owner) or await _beginning_with(store, item_id, owner)

    item = target.run(found)
    if item is None:
        raise CommandError(f"There is no item {item_id!r} here; 'memoranda search' finds ids.", ExitCode.NOT_FOUND)
    if target.as_json:
        show_json(dump_item(item))
    else:
        show(details(item))


_MOST_CANDIDATES = 10


async def _beginning_with(store: Store, prefix: str, metadata: options.Owner) -> MemoryItem | None:
    """Return the one item whose id begins like this, or None. Raises CommandError if there are several."""
    if not prefix:
        return None
    found: list[MemoryItem] = []
    async for item in store.scan(metadata=metadata):
        if item.id.startswith(prefix):
            found.append(item)
        if len(found) > _MOST_CANDIDATES:
            break
    if len(found) < 2:
        return found[0] if found else None
    ids = [item.id for item in found[:_MOST_CANDIDATES]]
    more = " and others" if len(found) > len(ids) else ""
    raise CommandError(
        f"Several ids begin with {prefix!r}: {', '.join(ids)}{more}. Give more of one.",
        ExitCode.USAGE,
        {"candidates": ids},
    )


@options.filtered
@options.scoped
def search(
    words: Annotated[list[str] | None, argument("QUERY", "What to look for; without it, all items.")] = None,
    mode: Annotated[
        Mode | None,
        option(
            "--mode -m MODE", "substring is literal; text, semantic and hybrid rank. The default is the store's own."
        ),
    ] = None,
    limit: Annotated[int, option("--limit -n", "The most to show.", min=0)] = 10,
    offset: Annotated[int, option("--offset", "Skip so many first.", min=0)] = 0,
    order: Annotated[
        Order, option("--order", "The order of a search that does not rank.", options.OUTPUT)
    ] = Order.CREATED,
    everything: Annotated[bool, option("--all -a", "Also what a summary replaced.", options.FILTERS)] = False,
    current: Annotated[
        bool, option("--current", "Of ranked items that say the same with different values, the newest first.")
    ] = False,
    explain: Annotated[bool, option("--explain -e", "Print what words and meaning count for.", options.OUTPUT)] = False,
    memory_type: Type = None,
    status: Status = None,
    which: options.Which = None,
    *,
    target: options.Target,
) -> None:
    """Find memories by words, meaning, owner, type or status.

    Without --mode most stores look for the query as a substring and show the newest first. The modes text, semantic
    and hybrid rank: they take the query as a question and show the best first, with scores from 0 to 1. Items that a
    summary replaced are archived; --all finds them, too.
    """
    from memoranda_commands.exits import run
    from memoranda_commands.render import ranked_results, results

    filters: dict[str, Any] = {
        "metadata": target.metadata,
        "memory_type": memory_type,
        "status": status,
        "archived": None if everything else False,
        "limit": limit,
        "offset": offset,
        "current": current,
        **which,
    }
    ranked, items = run(_search(target, " ".join(words or ()), mode, order, filters))
    if target.as_json:
        show_json(_ranked_json(ranked) if ranked is not None else _items_json(items))
        return
    if ranked or items:
        show(ranked_results(ranked) if ranked is not None else results(items))
    if explain:
        say(_shares(ranked))
    if not ranked and not items:
        say(f"Nothing was found.{run(_meant(target))}")
    elif len(ranked or items) == limit:
        which_ones = f"the first {limit}" if not offset else f"{limit} after the first {offset}"
        say(f"These are {which_ones}; --limit and --offset show more.")


async def _search(
    target: options.Target, query: str, mode: Mode | None, order: Order, filters: dict[str, Any]
) -> tuple[list[RankedItem] | None, list[MemoryItem]]:
    from inspect import signature

    from memoranda.errors import NoVectorsError
    from memoranda.store import Reindexable

    target = target.named()
    asked = mode.value if mode else ""
    picked = False
    async with target.opened() as store:
        lacking = asked in ("semantic", "hybrid") and asked not in store.capabilities
        takes_one = "embeddings" in signature(getattr(type(store), "from_url", type(store))).parameters
        if lacking and takes_one and _installed_embedders():
            # A search by meaning that names no embedder uses the one that is installed.
            target, picked = replace(target, options=[*(target.options or ()), "embeddings=auto"]), True
    try:
        async with target.opened() as store:
            if not picked or asked in store.capabilities:  # PostgreSQL cannot compare before it has a table of vectors.
                return await _found(store, query, mode, order, filters)
    except NoVectorsError:
        if not picked:
            raise
    say("No vectors yet: making them once, for all items.")
    async with target.opened("change") as store:
        if isinstance(store, Reindexable):
            await store.reindex()
        return await _found(store, query, mode, order, filters)


async def _found(
    store: Store, query: str, mode: Mode | None, order: Order, filters: dict[str, Any]
) -> tuple[list[RankedItem] | None, list[MemoryItem]]:
    """Return what a store finds, with scores if the mode ranks."""
    asked: Any = mode.value if mode else store.default_mode
    if asked != "substring" and asked not in store.capabilities:
        raise _without_embedder(asked)
    if not query or asked == "substring":
        how: Any = mode.value if mode else None
        return None, await store.search(query=query, mode=how, order=order.value, **filters)
    return await store.search_ranked(query=query, mode=asked, **filters), []


async def _meant(target: options.Target) -> str:
    """Return a question that offers similar user ids if the store knows none of this name; empty otherwise."""
    from memoranda.items import MemoryMetadata
    from memoranda.opening import default_url
    from memoranda_commands.stores import similar_users

    user = target.metadata.user_id if target.metadata is not None else None
    if user is None:
        return ""
    async with replace(target, url=target.url or default_url(make=False)).opened() as store:
        if await store.count(metadata=MemoryMetadata(user_id=user)):
            return ""
        return f" The store knows no user {user!r}.{did_you_mean(await similar_users(store, user))}"


def _installed_embedders() -> list[str]:
    from memoranda.plugins import EmbeddingsSpec, default_registry

    return sorted(spec.name for spec in default_registry().specs(EmbeddingsSpec))


def _without_embedder(mode: str) -> CommandError:
    """Return the error for a search by meaning in a store without an embedder; it says how to name one."""
    from memoranda.plugins import how_to_install

    names = _installed_embedders()
    if names:
        how = (
            f"Give it one: --option embeddings={names[0]}. Installed: {', '.join(names)}. 'memoranda reindex' with the "
        )
        how += "same option makes the vectors of what is stored."
    else:
        how = f"None is installed. Try: {how_to_install('memoranda-openai')}"
    return CommandError(
        f"--mode {mode} compares meanings, for which the store needs an embedder. {how}", ExitCode.UNSUPPORTED
    )


@options.filtered
@options.scoped
def history(
    limit: Annotated[int, option("--limit -n", "Only the newest so many.", min=0)] = 50,
    everything: Annotated[bool, option("--all -a", "All items, archived ones too.")] = False,
    ids: Annotated[bool, option("--ids", "Show the items' ids.", options.OUTPUT)] = False,
    memory_type: Type = None,
    status: Status = None,
    which: options.Which = None,
    *,
    target: options.Target,
) -> None:
    """Read a conversation, oldest first.

    Tool calls without results are shown, too; 'memoranda context' shows what a model would get.
    """
    from memoranda_commands.exits import run
    from memoranda_commands.render import conversation

    async def read(store: Store) -> list[MemoryItem]:
        wanted: dict[str, Any] = {"metadata": target.metadata, "memory_type": memory_type, "status": status, **which}
        if everything:
            return [item async for item in store.scan(order="added", **wanted)]
        newest = await store.search(limit=limit, order="added", mode="substring", **wanted)
        return newest[::-1]

    items = target.run(read)
    if target.as_json:
        show_json(_items_json(items))
    elif items:
        show(conversation(items, times=True, ids=ids))
        if not everything and len(items) == limit:
            say(f"These are the newest {limit}; --limit or --all shows more.")
    else:
        say(f"There is nothing here.{run(_meant(target))}")


def _shares(ranked: list[RankedItem] | None) -> str:
    if not ranked:
        return "Nothing was ranked: --mode text, semantic and hybrid do."
    share = ranked[0].meaning
    if 0 < share < 1:
        return (
            f"Words count for {1 - share:.0%} and meaning for {share:.0%}, for this query: the store measures how much "
            "each of them finds among the items it searches."
        )
    return f"{'Meaning' if share else 'Words'} alone ranked these."


def _items_json(items: list[MemoryItem]) -> list[dict[str, Any]]:
    from memoranda.store import dump_item

    return [dump_item(item) for item in items]


def _ranked_json(ranked: list[RankedItem]) -> list[dict[str, Any]]:
    from memoranda.store import dump_item

    return [
        {
            "item": dump_item(found.item),
            "score": found.score,
            "parts": dict(found.parts),
            "terms": list(found.terms),
            "meaning": found.meaning,
            **({"passage": found.passage} if found.passage else {}),
        }
        for found in ranked
    ]
