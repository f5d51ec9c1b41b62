"""What a receipt costs: recording a context, beside storing one message.

python bench/receipts.py

A receipt is one write, of a record that names each item with a hash of its content. The floor is an ``add`` of one
message to the same store. Both are measured in turn, and medians are compared.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from harness import Line, interleaved, line, report, run

import memoranda
from memoranda import AIMemory, HumanMemory
from memoranda.store import Store
from memoranda_receipts.recording import Recording, record

ROUNDS, CALLS = 100, 10
SAID = "The bicycle number {} stands in the shed behind the house, and its tyres want some air before the trip."


async def measure(name: str, store: Store) -> list[Line]:
    """Return the line of one store."""
    handle, other = store.scoped(user_id="ada", session_id="trip"), store.scoped(user_id="ada", session_id="other")
    for number in range(20):
        await handle.add_many([HumanMemory(content=SAID.format(number)), AIMemory(content=f"Noted, {number}.")])
    shown = await handle.window(rounds=8)
    found = await interleaved(
        {
            "add": lambda: other.add(HumanMemory(content=SAID.format("one"))),
            "receipt": lambda: record(handle, shown, Recording(), owner=handle.bounds, asked={"rounds": 8}),
        },
        rounds=ROUNDS,
        calls=CALLS,
    )
    return [line(f"{name}: a receipt of {len(shown)} messages", found, ours="receipt", floor="add")]


async def main() -> None:
    lines: list[Line] = []
    async with memoranda.open("memory://") as store:
        lines += await measure("memory", store)
    with tempfile.TemporaryDirectory() as folder:
        async with memoranda.open(f"sqlite:///{Path(folder) / 'bench.db'}") as store:
            lines += await measure("SQLite", store)
    report("What a receipt costs, against an add", lines)


if __name__ == "__main__":
    run(main)
