"""What a closed store may leave in the process: threads, tasks, files and sockets."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from memoranda.items import MemoryMetadata
from memoranda.store import Store
from memoranda_testing.model.contract import cause, sentence
from memoranda_testing.model.player import made
from memoranda_testing.model.program import call_text, composed, step_lines
from memoranda_testing.model.steps import Call, Many

LOOKS = 300
"""How often is looked whether what a store has let go of is gone; the event loop and its threads go on in between."""

_WAIT = 0.01


def held() -> dict[str, str]:
    """Return every thread, task, file and socket of the process: identity to description."""
    found = {
        # The system's number: Python's own may be that of a thread that has ended.
        f"thread {thread.native_id}": f"the thread {thread.name!r}"
        for thread in threading.enumerate()
        # Threads of the loop's own executor belong to the loop, not to the store.
        if not thread.name.startswith("asyncio_")
    }
    for task in asyncio.all_tasks():
        if task is not asyncio.current_task():
            found[f"task {id(task)}"] = f"the task {task.get_name()!r}"
    return {**found, **_descriptors()}


def _descriptors() -> dict[str, str]:
    """Return the open files and sockets, where /proc lists them."""
    folder = Path("/proc/self/fd")
    if not folder.is_dir():
        return {}
    found, times = {}, Counter[str]()
    for link in folder.iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue  # It was the one of the listing itself.
        # A disk in memory holds files.
        is_device = target.startswith("/dev/") and not target.startswith("/dev/shm/")
        if not (is_device or target.startswith(("/proc/", "anon_inode:", "pipe:"))):
            what = "a socket" if target.startswith("socket:") else f"the file {Path(target).name!r}"
            times[target] += 1  # The same file may be open more than once.
            found[f"descriptor {target} {times[target]}"] = what
    return found


async def left_since(before: dict[str, str], looks: int = LOOKS) -> list[str]:
    """Look until nothing new is held, at most so often, and return what is."""
    left: list[str] = []
    for _ in range(looks):
        left = [what for identity, what in held().items() if identity not in before]
        if not left:
            break
        await asyncio.sleep(_WAIT)
    return sorted(left)


def everyday(scope: MemoryMetadata) -> tuple[Call, ...]:
    """Return everyday calls; the scan is abandoned after its first item."""
    filters = {"metadata": scope}
    return (
        Call("add_many", {"items": Many(f"{scope.user_id}/", 30, scope)}),
        Call("search", {**filters, "query": "tea", "mode": "text"}),
        Call("scan", filters),
        Call("count", filters),
        Call("clear", filters),
    )


async def used(store: Store, calls: Sequence[Call]) -> None:
    """Open the store, make these calls, and close it."""
    await store.init()
    for call in calls:
        if call.method == "scan":
            async for _ in store.scan(**call.arguments):
                break
        else:
            await made(store, call)
    await store.close()


async def left_by(store: Store, calls: Sequence[Call]) -> list[str]:
    """Open, use and close the store once more, and return what that leaves behind."""
    before = held()
    await used(store, calls)
    return await left_since(before)


async def leak_report(store: Store, left: Sequence[str], calls: Sequence[Call]) -> str:
    """Describe what is left, with a program of the fewest calls that leave something."""
    least = calls
    for fewer in ((), *((call,) for call in calls)):
        if await left_by(store, fewer):
            least = fewer
            break
    return (
        f"After close() these are left: {', '.join(left)}.\nThe contract, {sentence('close', 'left')}\n"
        f"What usually causes it: {cause(None, 'left')}.\n"
        f"This program shows it:\n\n{composed(store, _lines(least))}\n"
    )


def _lines(calls: Sequence[Call]) -> list[str]:
    made_calls: list[str] = []
    for call in calls:
        if call.method == "scan":
            made_calls += [f"async for _ in {call_text(call)}:", "    break"]
        else:
            made_calls += step_lines(call)
    return [
        "for _ in range(2):  # What is made once and shared, such as threads of the loop's, is there the second time.",
        "    before = held()",
        "    await store.init()",
        *(f"    {line}" for line in made_calls),
        "    await store.close()",
        "left = await left_since(before)",
        "assert not left, left",
    ]
