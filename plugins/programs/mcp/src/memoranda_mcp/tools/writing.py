"""The tools that write: remember, update_memory, forget, and the one that keeps long conversations short."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Literal

from pydantic import Field

from memoranda.errors import InputError, SummaryError, VersionConflictError
from memoranda.items import AIMemory, HumanMemory, MemoryItem, MemoryMetadata, now_text
from memoranda.store.owners import space_of
from memoranda_mcp.graph import GRAPH_KIND
from memoranda_mcp.memory import Memory, Outcome, ScopedMemory, labelled, memory_of
from memoranda_mcp.tools.tool import Content, Id, Report, arguments_of, tool
from memoranda_summary import SummaryConfig, compact, plan

Labels = Annotated[Sequence[Id], Field(max_length=20, description="Words to find it by later, such as work or family.")]
Importance = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False, description="From 0, trivial, to 1, vital.")]
_SPEAKERS: dict[str, type[MemoryItem]] = {"note": MemoryItem, "user": HumanMemory, "assistant": AIMemory}


@tool("Store a new memory")
async def remember(
    memory: ScopedMemory,
    report: Report,
    *,
    content: Annotated[Content, Field(description="What to remember: a sentence that will make sense on its own.")],
    tags: Labels = (),
    importance: Importance | None = None,
    ttl_seconds: Annotated[
        float | None,
        Field(gt=0, le=10**10, allow_inf_nan=False, description="Forget it by itself after so many seconds."),
    ] = None,
    said_by: Annotated[
        Literal["note", "user", "assistant"],
        Field(description="note for what you conclude; user or assistant for the words of a conversation."),
    ] = "note",
    conversation: Annotated[Id | None, Field(description="The conversation that it is part of, if any.")] = None,
) -> Memory:
    """Store a note for later conversations: an event, a plan, a decision, a reminder, or how to do things from now on.

    Write one thing at a time, as a sentence that is clear without this conversation. Also saves the words of a
    conversation, as a message of the user or the assistant.
    """
    metadata = memory.within(conversation) or MemoryMetadata()
    item = _SPEAKERS[said_by](
        content=content,
        metadata=metadata.model_copy(update={"extra": labelled({}, tags, importance)}),
    )
    await memory.store.add(item, ttl=ttl_seconds)
    await memory.subscriptions.check()
    return memory_of(await memory.find(item.id))


@tool("Edit a memory", destroys=True)
async def update_memory(
    memory: ScopedMemory,
    report: Report,
    *,
    id: Id,
    version: Annotated[
        int, Field(ge=1, description="The version that you read. If it changed since, nothing is done.")
    ],
    content: Annotated[Content | None, Field(description="The new text; leave it out to keep the old one.")] = None,
    tags: Annotated[Labels | None, Field(description="The new tags, instead of all old ones.")] = None,
    importance: Importance | None = None,
) -> Memory:
    """Edit a stored note: rewrite its text, or change its tags or importance.

    Read it first and give the version that you saw: if it was changed meanwhile, nothing is done and you must read
    it again.
    """
    if content is None and tags is None and importance is None:
        raise InputError("update_memory needs something to change: `content`, `tags` or `importance`.")
    item = await memory.find(id)
    _refuse_special(item)
    if item.version != version:
        raise VersionConflictError(item.id, version, item.version)
    extra = labelled(item.metadata.extra, tags, importance)
    changes: dict[str, object] = {
        "metadata": item.metadata.model_copy(update={"extra": extra}),
        "updated_at": now_text(),
    }
    if content is not None:
        # The payload of a provider holds the old text.
        changes |= {"content": content, "payload": None, "payload_format": None}
    updated = await memory.store.update(item.model_copy(update=changes))
    await memory.subscriptions.check()
    return memory_of(updated)


class Forgotten(Outcome):
    """What was forgotten, or brought back."""

    forgotten: list[str] = Field(default=[])
    restored: list[Memory] = Field(default=[], description="What `undo` brought back.")
    not_found: list[str] = Field(default=[])
    can_be_undone: bool = False


@tool("Forget memories", destroys=True, repeatable=True, without=("purge",))
async def forget(
    memory: ScopedMemory,
    report: Report,
    *,
    ids: Annotated[
        list[Id] | None,
        Field(
            min_length=1,
            max_length=100,
            description="The ids of the memories. With `undo`, leave them out for those of the last call.",
        ),
    ] = None,
    undo: Annotated[bool, Field(description="Bring back what forget removed, instead of removing it.")] = False,
    purge: Annotated[bool, Field(description="Remove them for good, with every trace. This cannot be undone.")] = False,
) -> Forgotten:
    """Delete memories by their ids, because they are wrong or the person asks you to forget or remove them.

    With `undo`, restore what was deleted by mistake: it brings memories back as long as this server runs.
    """
    if undo:
        if purge:
            raise InputError("`undo` and `purge` do not go together: what is purged cannot be brought back.")
        return await _restored(memory, ids)
    if ids is None:
        raise InputError("`ids` is missing: the memories to forget. Only `undo` can do without.", field="ids")
    if purge and not memory.rights.allow_purge:
        raise InputError("This server removes nothing for good; it was started without --allow-purge.")
    there = await memory.store.get_many(ids)
    for item in there:
        _refuse_special(item)
    gone = [item.id for item in there]
    await memory.store.apply(deletes=gone, purge=purge)
    undoable = not purge and "delete" in memory.store.capabilities
    if gone and undoable:
        memory.note_forgotten(gone)
    await memory.subscriptions.check()
    missing = [item_id for item_id in dict.fromkeys(ids) if item_id not in gone]
    return Forgotten(forgotten=gone, not_found=missing, can_be_undone=bool(gone) and undoable)


async def _restored(memory: ScopedMemory, ids: list[str] | None) -> Forgotten:
    """Bring back what this server forgot: the last ones, or those that are named."""
    known = {item_id for call in memory.forgotten for item_id in call}
    if ids is not None:
        wanted = list(dict.fromkeys(ids))
    elif memory.forgotten:
        wanted = list(memory.forgotten[-1])
    else:
        raise InputError("Nothing was forgotten since this server was started; there is nothing to bring back.")
    back = [item_id for item_id in wanted if item_id in known and await memory.store.restore(item_id)]
    memory.forgotten[:] = [left for call in memory.forgotten if (left := tuple(i for i in call if i not in wanted))]
    await memory.subscriptions.check()
    items = await memory.store.get_many(back)
    return Forgotten(restored=[memory_of(item) for item in items], not_found=[i for i in wanted if i not in back])


def _refuse_special(item: MemoryItem) -> None:
    """Refuse what is shared, and what only its own tools change: parts of the graph, and entries of facts."""
    if (space := space_of(item)) is not None:
        raise InputError(f"This memory is shared in the space {space!r}, which is only read here. Nothing was changed.")
    if item.memory_type in ("fact", "fact-mark"):
        raise InputError(
            "This is an entry of a fact, which only its own tools change (set_fact, end_fact). Nothing was changed."
        )
    if item.memory_type == GRAPH_KIND:
        raise InputError(
            "This is part of the knowledge graph, which only its own tools change (add_observations, "
            "delete_observations, delete_entities, delete_relations) on a server with --graph. Nothing was changed."
        )


forget_or_purge = replace(
    forget,
    description=f"{forget.description} With `purge` they are erased for good: only if the person asks for that.",
    arguments=arguments_of(forget.run),
)
"""The tool ``forget`` of a server that may remove memories for good."""

remember_anything = replace(
    remember,
    description=f"{remember.description} Note what is true of a person, too: where they live, what they like or need.",
)
"""The tool ``remember`` of a server without tools for facts."""

remember_beside_facts = replace(
    remember,
    description=f"{remember.description} For what is true of a person or a thing, such as where they live or what they "
    "like, use set_fact instead.",
)
"""The tool ``remember`` of a server that has tools for facts."""


_CONFIG = SummaryConfig(
    prompts={
        "conversation": "Summarize the conversation below for a reader who continues it: who wants what, what was "
        "decided and why, what was found out, and what is still open. Keep names, numbers and dates."
    }
)


class Summarized(Outcome):
    """If a summary was due, and if it was written."""

    due: bool
    done: bool
    reason: str
    prompt: str | None = Field(default=None, description="Answer this, and call again with the answer and the ticket.")
    ticket: str | None = None
    summary_id: str | None = None
    archived: int = Field(default=0, description="How many memories the summary stands for now.")


@dataclass(slots=True)
class _Assistant:
    """A summarizer that is the assistant: its answer is here already, or it has yet to be given the prompt.

    The answer is accepted only for the prompt that its ticket was made for: otherwise later messages would be archived
    without having been read.
    """

    ticket: str | None
    answer: str | None
    unanswered: str | None = None

    async def summarize(self, prompt: str) -> str:
        if self.answer is None or self.ticket != _ticket(prompt):
            self.unanswered = prompt
            raise SummaryError("The assistant has yet to answer.")
        return self.answer


def _ticket(prompt: str) -> str:
    return hashlib.sha256(prompt.encode()).hexdigest()[:32]


@tool("Shorten a long conversation")
async def summarize_conversation(
    memory: ScopedMemory,
    report: Report,
    *,
    conversation: Annotated[
        Id | None, Field(description="Which conversation; only a server that is bound to one can do without.")
    ] = None,
    ticket: Annotated[str | None, Field(max_length=100, description="The `ticket` that came with the prompt.")] = None,
    summary: Annotated[
        Content | None, Field(description="Your answer to the prompt that the ticket came with.")
    ] = None,
) -> Summarized:
    """Shorten a long conversation: a summary takes the place of its older messages, once it has grown too long.

    If a summary is due you get a prompt and a ticket: answer the prompt and call again with both. What the summary
    stands for stays readable by its ids with list_memories.
    """
    if conversation is None and memory.store.scope.session_id is None:
        raise InputError("summarize_conversation needs a `conversation`: notes outside of one are not summarized.")
    if (summary is None) is not (ticket is None):
        raise InputError("`summary` and `ticket` go together: the answer, and what came with its prompt.")
    metadata = memory.within(conversation)
    await report(0, 2, "reading the conversation")
    planned = await plan(memory.store, metadata, _CONFIG)
    if not planned.older:
        counted = f"{planned.trigger.message_count} messages, about {planned.trigger.estimated_tokens} tokens"
        return Summarized(due=False, done=False, reason=f"Nothing is due: {counted}.")
    await report(1, 2, f"summarizing {len(planned.older)} memories")
    assistant = _Assistant(ticket, summary)
    try:
        result = await compact(memory.store, metadata, _CONFIG, memory.summarizer or assistant)
    except SummaryError:
        if assistant.unanswered is None:
            raise
        changed = " The conversation has gone on since your ticket was made; answer anew." if ticket else ""
        return Summarized(
            due=True,
            done=False,
            reason=f"A summary is due: {planned.trigger.reason}.{changed}",
            prompt=assistant.unanswered,
            ticket=_ticket(assistant.unanswered),
        )
    await memory.subscriptions.check()
    await report(2, 2, "done")
    return Summarized(
        due=True,
        done=result.compacted,
        reason=result.trigger.reason or "Another process has just done it.",
        summary_id=result.summary_id,
        archived=len(result.archived),
    )
