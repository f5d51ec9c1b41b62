"""Rotates the keys of a store in processes that a test kills: python rotating.py WHAT STORE KEYS MASTER.

For each line of its input it forks a process, which prints its id, then how far it is; in the end it prints ``ended``.
"""

from __future__ import annotations

import asyncio
import os
import sys

from memoranda_encrypt import KeyRing, LocalMasterKey, decrypt, encrypt, rotate, with_encryption
from memoranda_sqlite import SQLiteMemoryStore


async def convert(what: str, store: str, keys: str, master: str) -> None:
    """Do it once, saying how far it is."""
    ring = KeyRing(LocalMasterKey.from_file(master), keys)

    def progress(done: int, total: int) -> None:
        print(done, total, flush=True)

    inner = SQLiteMemoryStore(store, durability="normal")
    print(os.getpid(), flush=True)
    if what == "rotate":
        async with with_encryption(inner, ring) as sealed:
            await rotate(sealed, progress=progress, grace=0)
    else:
        await (encrypt if what == "encrypt" else decrypt)(inner, ring, progress=progress)


if __name__ == "__main__":
    for _ in sys.stdin:
        child = os.fork()
        if not child:
            asyncio.run(convert(*sys.argv[1:]))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print("ended", status, flush=True)
