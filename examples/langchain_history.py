"""A chain of LangChain whose history survives restarts, and a retriever over all sessions. No key.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[langchain]'
    python examples/langchain_history.py

It prints:

    ai: Noted.
    ai: You told me: My flat is in Oslo.
    4 messages: human, ai, human, ai
    the retriever finds: My flat is in Oslo.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.history import RunnableWithMessageHistory

import memoranda.sync
from memoranda_langchain import MemorandaChatMessageHistory, MemorandaRetriever

warnings.filterwarnings("ignore", message="RunnableWithMessageHistory is deprecated")


def model(messages: list[BaseMessage]) -> AIMessage:
    """Stand in for a chat model, which would be ``init_chat_model(…)``."""
    told = [message.text for message in messages[:-1] if isinstance(message, HumanMessage)]
    return AIMessage(f"You told me: {told[0]}" if told else "Noted.")


def chat(url: str, question: str) -> None:
    """Ask a question, as a process does that knows nothing but the store."""
    with memoranda.sync.open(url) as store:
        ada = store.scoped(user_id="ada")
        chain = RunnableWithMessageHistory(
            RunnableLambda(model), lambda session_id: MemorandaChatMessageHistory(session_id, ada)
        )
        answer = chain.invoke([HumanMessage(question)], {"configurable": {"session_id": "chat-1"}})
        print(f"{answer.type}: {answer.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{Path(folder) / 'agent.db'}"
        chat(url, "My flat is in Oslo.")
        chat(url, "Where is my flat?")
        with memoranda.sync.open(url) as store:
            ada = store.scoped(user_id="ada")
            kinds = [message.type for message in MemorandaChatMessageHistory("chat-1", ada).messages]
            print(f"{len(kinds)} messages:", ", ".join(kinds))
            (found,) = MemorandaRetriever(store=ada, k=1).invoke("flat in Oslo")
            print("the retriever finds:", found.page_content)
