"""The tools that write: remember, update, forget, undo_forget."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import Field

from memoranda.errors import InputError, VersionConflictError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, now_text
from memoranda_mcp.graph import GRAPH_KIND
from memoranda_mcp.memory import ScopedMemory
from memoranda_mcp.tools.memories import Memory, Outcome, labelled, memory_of
from memoranda_mcp.tools.tool import Arguments, Content, Id, Report, tool

Labels = Annotated[list[Id], Field(max_length=20, description="Words to find it by later, such as work or family.")]
Importance = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="From 0, trivial, to 1, vital.")]
_SPEAKERS: dict[str, type[MemoryItem]] = {"note": MemoryItem, "user": HumanMemory, "assistant": AIMemory}


class RememberArguments(Arguments):
    """What remember takes."""

    content: Annotated[Content, Field(description="What to remember: a sentence that will make sense on its own.")]
    tags: Labels = Field(default=[])
    importance: Importance | None = None
    ttl_seconds: Annotated[
        float | None,
        Field(gt=0, le=10**10, allow_inf_nan=False, description="Forget it by itself after so many seconds."),
    ] = None
    said_by: Annotated[
        Literal["note", "user", "assistant"],
        Field(description="note for what you conclude; user or assistant for the words of a conversation."),
    ] = "note"
    conversation: Annotated[Id | None, Field(description="The conversation that it is part of, if any.")] = None


@tool("Remember something")
async def remember(memory: ScopedMemory, given: RememberArguments, report: Report) -> Memory:
    """Remember a fact, a preference, a decision or a plan, so that you know it in later conversations.

    Write one thing at a time, as a sentence that is clear without this conversation.
    """
    metadata = memory.within(given.conversation) or MemoryMetadata()
    item = _SPEAKERS[given.said_by](
        content=given.content,
        metadata=metadata.model_copy(update={"extra": labelled({}, given.tags, given.importance)}),
    )
    await memory.store.add(item, ttl=given.ttl_seconds)
    await memory.subscriptions.check()
    return memory_of(await memory.find(item.id))


class UpdateArguments(Arguments):
    """What update takes."""

    id: Id
    version: Annotated[int, Field(ge=1, description="The version that you read. If it changed since, nothing is done.")]
    content: Annotated[Content | None, Field(description="The new text; leave it out to keep the old one.")] = None
    tags: Annotated[Labels | None, Field(description="The new tags, instead of all old ones.")] = None
    importance: Importance | None = None


@tool("Correct a memory", destroys=True)
async def update(memory: ScopedMemory, given: UpdateArguments, report: Report) -> Memory:
    """Change the text, the tags or the importance of a memory that is no longer right.

    Read it first and give the version that you saw: if it was changed meanwhile, nothing is done and you must read
    it again.
    """
    if given.content is None and given.tags is None and given.importance is None:
        raise InputError("update needs something to change: `content`, `tags` or `importance`.")
    item = await memory.find(given.id)
    _refuse_special(item)
    if item.version != given.version:
        raise VersionConflictError(item.id, given.version, item.version)
    extra = labelled(item.metadata.extra, given.tags, given.importance)
    changes: dict[str, object] = {
        "metadata": item.metadata.model_copy(update={"extra": extra}),
        "updated_at": now_text(),
    }
    if given.content is not None:
        # The payload of a provider holds the old text.
        changes |= {"content": given.content, "payload": None, "payload_format": None}
    updated = await memory.store.update(item.model_copy(update=changes))
    await memory.subscriptions.check()
    return memory_of(updated)


class ForgetArguments(Arguments):
    """What forget takes."""

    ids: Annotated[list[Id], Field(min_length=1, max_length=100, description="The ids of the memories to forget.")]


class PurgeArguments(ForgetArguments):
    """What forget takes where memories may be removed for good."""

    purge: Annotated[bool, Field(description="Remove them for good, with every trace. This cannot be taken back.")] = (
        False
    )


class Forgotten(Outcome):
    """What was forgotten."""

    forgotten: list[str]
    not_found: list[str]
    can_be_undone: bool


@tool("Forget memories", destroys=True, repeatable=True)
async def forget(memory: ScopedMemory, given: ForgetArguments, report: Report) -> Forgotten:
    """Forget memories by their ids, because they are wrong or the person asks for it.

    undo_forget brings them back as long as this server runs.
    """
    purge = isinstance(given, PurgeArguments) and given.purge
    if purge and not memory.rights.allow_purge:
        raise InputError("This server removes nothing for good; it was started without --allow-purge.")
    there = await memory.store.get_many(given.ids)
    for item in there:
        _refuse_special(item)
    gone = [item.id for item in there]
    await memory.store.apply(deletes=gone, purge=purge)
    undoable = not purge and "delete" in memory.store.capabilities
    if gone and undoable:
        memory.note_forgotten(gone)
    await memory.subscriptions.check()
    missing = [item_id for item_id in dict.fromkeys(given.ids) if item_id not in gone]
    return Forgotten(forgotten=gone, not_found=missing, can_be_undone=bool(gone) and undoable)


class UndoArguments(Arguments):
    """What undo_forget takes."""

    ids: Annotated[
        list[Id] | None, Field(max_length=100, description="Which to bring back; leave it out for the last forget.")
    ] = None


class Restored(Outcome):
    """What is remembered again."""

    memories: list[Memory]
    not_found: list[str]


@tool("Take a forget back", repeatable=True)
async def undo_forget(memory: ScopedMemory, given: UndoArguments, report: Report) -> Restored:
    """Bring back what forget removed since this server was started: the last ones, or those that you name."""
    known = {item_id for ids in memory.forgotten for item_id in ids}
    if given.ids is None:
        if not memory.forgotten:
            raise InputError("Nothing was forgotten since this server was started; there is nothing to bring back.")
        wanted = list(memory.forgotten[-1])
    else:
        wanted = list(dict.fromkeys(given.ids))
    back = [item_id for item_id in wanted if item_id in known and await memory.store.restore(item_id)]
    memory.forgotten[:] = [left for ids in memory.forgotten if (left := tuple(i for i in ids if i not in wanted))]
    await memory.subscriptions.check()
    items = await memory.store.get_many(back)
    return Restored(memories=[memory_of(item) for item in items], not_found=[i for i in wanted if i not in back])


def _refuse_special(item: MemoryItem) -> None:
    """Refuse what only its own tools change: parts of the graph, and entries in the log of a fact."""
    if item.memory_type in ("fact", "fact-mark"):
        raise InputError(
            "This is an entry of a fact, which only its own tools change (correct_fact, end_fact). Nothing was changed."
        )
    if item.memory_type == GRAPH_KIND:
        raise InputError(
            "This is part of the knowledge graph, which only its own tools change (add_observations, "
            "delete_observations, delete_entities, delete_relations). Nothing was changed."
        )


forget_or_purge = replace(
    forget,
    description=f"{forget.description} With purge they are removed for good, which nothing brings back: only if the "
    "person asks for exactly that.",
    arguments=PurgeArguments,
)
"""The tool ``forget`` of a server that may remove memories for good."""
