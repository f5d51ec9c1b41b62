"""The tool that keeps long conversations short. The server's model writes the summary, or the assistant itself does."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from memoranda.errors import InputError, SummaryError
from memoranda_mcp.memory import ScopedMemory
from memoranda_mcp.tools.memories import Outcome
from memoranda_mcp.tools.tool import Arguments, Content, Id, Report, tool
from memoranda_summary import SummaryConfig, compact, plan

_CONFIG = SummaryConfig(
    prompts={
        "conversation": "Summarize the conversation below for a reader who continues it: who wants what, what was "
        "decided and why, what was found out, and what is still open. Keep names, numbers and dates."
    }
)


class SummarizeArguments(Arguments):
    """What summarize_conversation takes."""

    conversation: Annotated[
        Id | None, Field(description="Which conversation; only a server that is bound to one can do without.")
    ] = None
    ticket: Annotated[str | None, Field(max_length=100, description="The `ticket` that came with the prompt.")] = None
    summary: Annotated[Content | None, Field(description="Your answer to the prompt that the ticket came with.")] = None


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
async def summarize_conversation(memory: ScopedMemory, given: SummarizeArguments, report: Report) -> Summarized:
    """Shorten a long conversation: a summary takes the place of its older messages, once it has grown too long.

    If a summary is due you get a prompt and a ticket: answer the prompt and call again with both. What the summary
    stands for stays readable by its ids with list_memories.
    """
    if given.conversation is None and memory.store.scope.session_id is None:
        raise InputError("summarize_conversation needs a `conversation`: notes outside of one are not summarized.")
    if (given.summary is None) is not (given.ticket is None):
        raise InputError("`summary` and `ticket` go together: the answer, and what came with its prompt.")
    metadata = memory.within(given.conversation)
    await report(0, 2, "reading the conversation")
    planned = await plan(memory.store, metadata, _CONFIG)
    if not planned.older:
        counted = f"{planned.trigger.message_count} messages, about {planned.trigger.estimated_tokens} tokens"
        return Summarized(due=False, done=False, reason=f"Nothing is due: {counted}.")
    await report(1, 2, f"summarizing {len(planned.older)} memories")
    assistant = _Assistant(given.ticket, given.summary)
    try:
        result = await compact(memory.store, metadata, _CONFIG, memory.summarizer or assistant)
    except SummaryError:
        if assistant.unanswered is None:
            raise
        changed = " The conversation has gone on since your ticket was made; answer anew." if given.ticket else ""
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
