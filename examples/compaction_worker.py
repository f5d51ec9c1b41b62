"""A worker that repeatedly compacts every session that has grown too long.

    pip install -r requirements.txt
    pip install -c constraints.txt './core[openai,summary-conversation]'
    python examples/compaction_worker.py --once
    python examples/compaction_worker.py --every 60

It needs a model: OPENAI_API_KEY, or OPENAI_BASE_URL for your own server. Any number of workers may run beside the
services that write: each session is compacted once, and the next worker finishes the session of a killed one.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import signal

import memoranda
from memoranda import MemoryMetadata
from memoranda.errors import MemoryError
from memoranda.store import Store
from memoranda_openai import OpenAISummarizer
from memoranda_summary import Summarizer, SummaryConfig, compact

logger = logging.getLogger("worker")
CONFIG = SummaryConfig(message_threshold=20, keep_recent=6, max_prompt_tokens=8_000)


async def compact_all(store: Store, summarizer: Summarizer, stopping: asyncio.Event) -> int:
    """Compact the sessions that are due, one by one, and return their number."""
    compacted = 0
    async for user in store.owners("user_id"):
        of_user = MemoryMetadata(user_id=str(user.value))
        async for session in store.owners("session_id", within=of_user):
            if stopping.is_set():
                return compacted
            owner = MemoryMetadata(user_id=str(user.value), session_id=str(session.value))
            try:
                result = await compact(store, owner, CONFIG, summarizer)
            except MemoryError as error:  # One session's model or data must not stop the others.
                logger.warning("A session was left as it is: %s", error)
                continue
            if result.compacted:
                compacted += 1
                logger.info("%d items of a session are now a summary.", len(result.archived))
    return compacted


async def main(every: float | None) -> None:
    """Compact once, or until a signal asks to stop; the current session is finished first."""
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    url = os.environ.get("MEMORANDA_URL", "sqlite:///agent.db")
    summarizer = OpenAISummarizer(os.environ.get("MODEL", "gpt-5-mini"))
    # "change": a worker with a mistyped URL must fail instead of creating an empty store.
    async with memoranda.open(url, access="change") as store:
        while True:
            print("Compacted sessions:", await compact_all(store, summarizer, stopping), flush=True)
            if every is None or stopping.is_set():
                return
            try:
                await asyncio.wait_for(stopping.wait(), every)
            except TimeoutError:
                continue


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compact every session that has grown too long.")
    pause = parser.add_mutually_exclusive_group(required=True)
    pause.add_argument("--once", action="store_true")
    pause.add_argument("--every", type=float, metavar="SECONDS")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(main(arguments.every))
