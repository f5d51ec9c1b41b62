"""One process of many that compact the same conversation: ``compaction_worker.py URL USER``.

It says ``asked`` once its model is asked, waits for a line, says ``answered``, and in the end what it did as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys

import memoranda
from memoranda import MemoryMetadata
from memoranda_summary import SummaryConfig, compact

CONFIG = SummaryConfig(message_threshold=10, keep_recent=4, templates=("conversation", "facts"))


class Model:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.told = asyncio.Event()
        self.asked = 0

    async def summarize(self, prompt: str) -> str:
        self.asked += 1
        if self.asked == len(CONFIG.templates):
            say("asked")
            await asyncio.to_thread(sys.stdin.readline)
            say("answered")
            self.told.set()
        await self.told.wait()
        return (
            "- [msg1] Ada lives in Oslo.\n- [msg2] Ada has two cats."
            if "one fact per line" in prompt
            else "They talked."
        )


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def main(url: str, user: str) -> None:
    model = Model()
    async with memoranda.open(url) as store:
        result = await compact(store, MemoryMetadata(user_id=user), CONFIG, model)
    say(json.dumps({"compacted": result.compacted, "archived": len(result.archived), "asked": model.asked}))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
