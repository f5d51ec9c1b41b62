"""The writer of ``three_agents.py``, which starts this program: a graph of LangGraph that reads what was granted to it.

pip install -r requirements.txt
pip install -c constraints.txt './core[langgraph,spaces]' langgraph
python examples/three_agents_writer.py URL QUESTION
"""

from __future__ import annotations

import asyncio
import sys
from typing import TypedDict

from langgraph.graph import START, StateGraph

import memoranda
from memoranda_langgraph import MemorandaSaver
from memoranda_spaces import space_of


class Report(TypedDict):
    question: str
    text: str


async def main(url: str, question: str) -> None:
    async with memoranda.open(url) as store:
        memory = store.scoped(user_id="ada", agent_id="writer", spaces="granted")

        async def write(report: Report) -> dict[str, str]:
            found = await memory.recall(report["question"])
            told = [f"{item.content} [from the space {space_of(item)}]" for item in found if space_of(item)]
            return {"text": " ".join(told) or "nothing"}

        builder = StateGraph(Report)
        builder.add_node("write", write)
        builder.add_edge(START, "write")
        graph = builder.compile(checkpointer=MemorandaSaver(memory))
        report = await graph.ainvoke({"question": question, "text": ""}, {"configurable": {"thread_id": "writer-1"}})
        print(report["text"])


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("Name the store and the question; three_agents.py does.")
    asyncio.run(main(sys.argv[1], sys.argv[2]))
