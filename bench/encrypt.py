"""An encrypted store against the same store without encryption, on a file of its own, in the same run.

python bench/encrypt.py [--items 1000] [--url postgresql://…]

"read for the first time" is what a new process pays: nothing is at hand, and every item is decrypted. The other rows
are those of a process that goes on, with its caches. Reads are measured in processor time, which other programs on the
machine change least; adds in real time, since they wait for the disk.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import count, cycle
from pathlib import Path

from harness import Line, interleaved, line, report, run

import memoranda
from memoranda import HumanMemory, MemoryMetadata
from memoranda.store import Store
from memoranda.store.layers import layer_of
from memoranda_encrypt import EncryptionLayer, KeyRing, LocalMasterKey

WORDS = ("tea", "coffee", "window", "train", "Oslo", "Rome", "printer", "kitchen", "violin", "snow", "garden", "river")
ADA = MemoryMetadata(user_id="ada", session_id="trip")
USER = MemoryMetadata(user_id="ada")


def message(number: int) -> HumanMemory:
    """Return a message of fifteen words."""
    words = [WORDS[(number * step + step) % len(WORDS)] for step in range(1, 15)]
    return HumanMemory(content=f"{' '.join(words)} {number}.", metadata=ADA)


async def measured(name: str, bare: Store, sealed: Store, items: int) -> list[Line]:
    """Return the lines of one engine."""
    encryption = layer_of(sealed, EncryptionLayer)
    assert encryption is not None
    stored = [message(number) for number in range(items)]
    for store in (bare, sealed):
        await store.add_many(stored)
    numbers = count(items)
    ids = {store: cycle([item.id for item in stored]) for store in (bare, sealed)}

    async def first(store: Store) -> object:
        if store is sealed:
            encryption.forget_decrypted()
        return await store.get(next(ids[store]))

    async def last(store: Store) -> object:
        if store is sealed:
            encryption.forget_decrypted()
        return await store.search(metadata=USER, limit=20)

    gets = await interleaved(
        {"floor": lambda: bare.get(next(ids[bare])), "memoranda": lambda: sealed.get(next(ids[sealed]))},
        rounds=25,
        calls=200,
        clock=time.process_time,
    )
    firsts = await interleaved(
        {"floor": lambda: first(bare), "memoranda": lambda: first(sealed)},
        rounds=25,
        calls=200,
        clock=time.process_time,
    )
    lasts = await interleaved(
        {
            "floor": lambda: bare.search(metadata=USER, limit=20),
            "memoranda": lambda: sealed.search(metadata=USER, limit=20),
        },
        rounds=25,
        calls=40,
        clock=time.process_time,
    )
    first_lasts = await interleaved(
        {"floor": lambda: last(bare), "memoranda": lambda: last(sealed)},
        rounds=25,
        calls=40,
        clock=time.process_time,
    )
    ranked = await interleaved(
        {
            "floor": lambda: bare.search(query="train to Oslo", metadata=USER, mode="text"),
            "memoranda": lambda: sealed.search(query="train to Oslo", metadata=USER, mode="text"),
        },
        rounds=15,
        calls=3,
        clock=time.process_time,
    )
    adds = await interleaved(
        {"floor": lambda: bare.add(message(next(numbers))), "memoranda": lambda: sealed.add(message(next(numbers)))},
        rounds=25,
        calls=40,
    )
    return [
        line(f"{name}: get", gets, goal="0.77 (1/1.3)"),
        line(f"{name}: get, read for the first time", firsts),
        line(f"{name}: add", adds, goal="0.77 (1/1.3)"),
        line(f"{name}: last 20", lasts, goal="0.67 (1/1.5)"),
        line(f"{name}: last 20, read for the first time", first_lasts),
        line(f"{name}: ranked text, a user of {items:,}", ranked, goal="0.50 (1/2)"),
    ]


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000)
    parser.add_argument("--url", help="another engine, with an empty schema or namespace 'bare' and one 'sealed'")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ring = KeyRing(LocalMasterKey.generate(), Path(folder) / "keys.db")
        urls = [f"sqlite:///{folder}/{name}.db" for name in ("bare", "sealed")]
        if options.url:
            named = "schema" if options.url.startswith("postgres") else "namespace"
            urls = [f"{options.url}{'&' if '?' in options.url else '?'}{named}={name}" for name in ("bare", "sealed")]
        async with memoranda.open(urls[0]) as bare, memoranda.open(urls[1], encrypt=ring) as sealed:
            name = type(bare).__name__.removesuffix("MemoryStore")
            report(f"Encryption on {name}", await measured(name, bare, sealed, options.items))


if __name__ == "__main__":
    run(main)
