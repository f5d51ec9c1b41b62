"""Another process on a store with spaces: ``spaces_worker.py URL``.

For each line of JSON, ``{"now": seconds, "call": name, …}``, it changes grants or removes items, and answers with a
line. It says ``ready`` first.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import UTC, datetime
from typing import Any

import memoranda
from memoranda_spaces import Grants


async def carry_out(grants: Grants, store: Any, asked: dict[str, Any]) -> None:
    """Do what a line asks for."""
    name = asked.pop("call")
    if name == "purge":
        await store.purge(asked["item"])
        return
    if asked.get("until") is not None:
        asked["until"] = datetime.fromtimestamp(asked["until"], UTC)
    positional = [asked.pop(key) for key in ("space", "name", "member") if key in asked]
    await getattr(grants, name)(*positional, **asked, by="vera")


async def main(url: str) -> None:
    present = 0.0
    async with memoranda.open(url) as store:
        store.clock = lambda: present  # type: ignore[method-assign]
        grants = None
        print("ready", flush=True)
        for line in sys.stdin:
            asked = json.loads(line)
            present = asked.pop("now")
            grants = grants or Grants(store)
            await carry_out(grants, store, asked)
            print("done", flush=True)


asyncio.run(main(sys.argv[1]))
