"""What a process holds that a store may leave behind: threads, tasks, files and sockets."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path

_WAIT = 0.01


def held() -> dict[str, str]:
    """Return every thread, task, file and socket of the process, by an identity, with what it is."""
    found = {
        f"thread {thread.ident}": f"the thread {thread.name!r}"
        for thread in threading.enumerate()
        # Those of the loop's own executor are the loop's, and wait for the next who needs one.
        if not thread.name.startswith("asyncio_")
    }
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            found[f"task {id(task)}"] = f"the task {task.get_name()!r}"
    return {**found, **_descriptors()}


def _descriptors() -> dict[str, str]:
    """Return the open files and sockets, on systems that tell."""
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return {}
    found, times = {}, Counter[str]()
    for link in folder.iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue  # It was the one of the listing itself.
        if not target.startswith(("/dev/", "/proc/", "anon_inode:", "pipe:")):
            what = "a socket" if target.startswith("socket:") else f"the file {Path(target).name!r}"
            times[target] += 1  # The same file may be open more than once.
            found[f"descriptor {target} {times[target]}"] = what
    return found


async def left_since(before: dict[str, str], seconds: float) -> list[str]:
    """Return what is there that was not there before, as soon as that is nothing, or after this time."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + seconds
    while True:
        left = [what for identity, what in held().items() if identity not in before]
        if not left or loop.time() >= ends:
            return sorted(left)
        await asyncio.sleep(_WAIT)
