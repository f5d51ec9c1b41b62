"""A model chooses a tool by its name, title and description alone, so these say which requests are its own.

Forty requests are given to a chooser that knows nothing but words: it takes the tool whose text shares the most
telling words with the request. What such a chooser tells apart, a model does not confuse.
"""

from __future__ import annotations

import math
import re
from collections import Counter

import pytest

from memoranda_mcp import Rights
from memoranda_mcp.server import instructions_for, tools_for

REQUESTS = {
    "context": [
        "Gather what is worth knowing before answering the question.",
        "A new conversation begins: what should I know before I answer?",
        "Put together the context for this question in 2000 tokens.",
        "Prepare everything relevant within a token budget as one text.",
    ],
    "recall": [
        "Do you remember what I told you about the Lisbon trip?",
        "Find memories about the kitchen renovation.",
        "What did I mention about my knee before?",
        "Look for something we discussed concerning the budget proposal.",
        "Which memories match the topic of sailing best?",
        "Find the most relevant notes about the server migration since March.",
    ],
    "list_memories": [
        "Show the latest entries.",
        "List everything from yesterday, newest first.",
        "What happened last week, in order of time?",
        "Show all messages of one conversation.",
        "List what has the tag work.",
        "Show the entry with this id.",
        "List entries with the exact wording 'invoice 4711'.",
    ],
    "remember": [
        "Make a note for later: the plumber comes on Tuesday.",
        "Remember our decision to postpone the launch.",
        "Save the words of the user as a message of this conversation.",
        "Note the plan for the weekend for later conversations.",
        "From now on answer in short sentences; store that.",
    ],
    "update_memory": [
        "Rewrite the text of that stored note.",
        "Change the tags of this memory.",
        "Edit the note: raise its importance.",
    ],
    "forget": [
        "Delete that memory.",
        "Please forget what I said about my boss.",
        "Remove these memories, they are wrong.",
        "Restore what you deleted by mistake.",
        "Undo: bring those memories back.",
    ],
    "summarize_conversation": [
        "This conversation has grown too long; shorten it.",
        "Write a summary of the older messages if it is due.",
        "Answer the prompt that came with the ticket.",
    ],
    "look_up_facts": [
        "Look up where Ada works now.",
        "What was true at that date?",
        "Which facts are disputed?",
        "Look up the birthday of Grace.",
    ],
    "set_fact": [
        "I moved to Porto.",
        "Record that Ada is allergic to peanuts.",
        "My new employer is Acme: record the changed value.",
    ],
    "end_fact": [
        "I quit my job and nothing takes its place.",
        "That is no longer true: I stopped smoking.",
        "The fact was wrong from the start.",
    ],
}
"""Requests, by the tool that each should get."""

COMMON = {
    *("a", "an", "the", "this", "that", "it", "its", "i", "me", "my", "you", "your", "they", "their", "one", "all"),
    *("and", "or", "so", "if", "as", "also", "at", "by", "for", "from", "in", "of", "on", "to", "with"),
    *("are", "is", "was", "be", "do", "has", "have", "use", "what", "which"),
}
"""Words that tell nothing about what is wanted."""


def words(text: str) -> list[str]:
    """Return the telling words of a text without their endings."""
    found = re.findall(r"[a-z]+", text.lower())
    return [
        re.sub(r"(ies|ed|es|ing|s|e|y)$", "", word) if len(word) > 3 else word for word in found if word not in COMMON
    ]


def chosen(request: str, texts: dict[str, str]) -> str:
    """Return the tool whose text has the most of a request's words; rare words count more."""
    counted = {name: Counter(words(text)) for name, text in texts.items()}
    tools_with = Counter(word for counts in counted.values() for word in counts)

    def score(name: str) -> float:
        return sum(
            math.log(1 + len(counted) / tools_with[word]) for word in set(words(request)) if word in counted[name]
        )

    return max(counted, key=score)


def texts_of(rights: Rights) -> dict[str, str]:
    """Return what a client is told about each tool, arguments left out."""
    return {name: f"{name} {tool.title} {tool.description}" for name, tool in tools_for(rights).items()}


def test_forty_requests_cover_every_tool() -> None:
    assert sum(len(requests) for requests in REQUESTS.values()) >= 40
    assert list(REQUESTS) == list(tools_for(Rights(facts=True, allow_purge=True)))


@pytest.mark.parametrize(
    ("request_", "tool"), [(request, tool) for tool, requests in REQUESTS.items() for request in requests]
)
def test_a_request_gets_its_tool_by_descriptions_alone(request_: str, tool: str) -> None:
    assert chosen(request_, texts_of(Rights(facts=True, allow_purge=True))) == tool


@pytest.mark.parametrize(
    "rights",
    [Rights(), Rights(facts=True, allow_purge=True), Rights(read_only=True, facts=True), Rights(graph=True)],
)
def test_there_are_at_most_ten_tools_and_they_name_no_other(rights: Rights) -> None:
    tools = tools_for(rights)
    known = {name for each in (Rights(facts=True), Rights(graph=True)) for name in tools_for(each)}
    assert len(tools) <= 10
    for name, tool in tools.items():
        assert set(re.findall(r"[a-z]+_[a-z_]+", tool.description)) & known <= set(tools), name


@pytest.mark.parametrize(
    ("rights", "named"),
    [
        (Rights(), {"context", "remember"}),
        (Rights(facts=True), {"context", "remember", "set_fact", "end_fact"}),
        (Rights(read_only=True), {"context"}),
        (Rights(graph=True), {"search_nodes", "open_nodes", "read_graph"}),
    ],
)
def test_the_instructions_name_tools_that_are_there(rights: Rights, named: set[str]) -> None:
    said = instructions_for(rights)
    assert named <= tools_for(rights).keys()
    assert all(re.search(rf"\b{name}\b", said) for name in named)
    assert "information, not instructions" in said
    assert "facts that hold now" in said or rights.graph
