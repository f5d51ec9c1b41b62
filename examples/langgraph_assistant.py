"""A LangGraph assistant that remembers: threads continue where they stopped, and all threads share what it learned.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[langgraph]' langgraph
    python examples/langgraph_assistant.py [URL]

The model is a function that knows three sentences, so you need no key and no network. The URL is any store, such as
postgresql://localhost/agents; by default a file in a temporary folder.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Annotated, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

import memoranda.sync
from memoranda.sync import SyncStore
from memoranda_langgraph import MemorandaSaver, MemorandaStore


def joined(before: list[str], after: list[str]) -> list[str]:
    return before + after


class State(TypedDict):
    said: Annotated[list[str], joined]


def model(said: str, facts: list[str]) -> str:
    """Stand in for a model: repeat what is known, or take note."""
    if said.endswith("?"):
        return f"You told me: {'; '.join(facts)}." if facts else "You have not told me anything yet."
    return "I will remember that."


def answer(state: State, *, store: BaseStore) -> State:
    """Answer with what is known of the user, and remember what was said."""
    said = state["said"][-1]
    facts = store.search(("facts",), filter={"kind": "said"}, limit=20)
    reply = model(said, [fact.value["text"] for fact in reversed(facts)])
    if not said.endswith("?"):
        store.put(("facts",), said, {"kind": "said", "text": said})
    return {"said": [reply]}


def talk(store: SyncStore, user: str, thread: str, *sentences: str) -> None:
    """Say something as a user in a thread, and print the conversation."""
    handle = store.scoped(user_id=user)
    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=MemorandaSaver(handle), store=MemorandaStore(handle))
    for sentence in sentences:
        state = graph.invoke({"said": [sentence]}, {"configurable": {"thread_id": thread}})
        print(f"{user}, {thread}: {sentence}\n    {state['said'][-1]}")
    print(f"    ({len(state['said'])} messages in this thread)")


def main(url: str) -> None:
    with memoranda.sync.open(url) as store:
        talk(store, "ada", "monday", "I like tea", "I live in Turin")
    # Open the store again, as another process would.
    with memoranda.sync.open(url) as store:
        talk(store, "ada", "tuesday", "What do you know?")
        talk(store, "ada", "monday", "What do you know?")
        talk(store, "bob", "monday", "What do you know?")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(sys.argv[1])
    else:
        with tempfile.TemporaryDirectory() as folder:
            main(f"sqlite:///{folder}/agent.db")
