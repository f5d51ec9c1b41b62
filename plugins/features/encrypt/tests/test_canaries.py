"""Nothing in clear reaches a file, a log, a journal or a dump: the bytes on the disk are searched for canaries."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import memoranda
from memoranda import AIMemory, HumanMemory, MemoryMetadata, ToolMemory
from memoranda.store import Store
from memoranda_backend.ranking import HashingEmbeddings, pack_vector
from memoranda_encrypt import KeyRing, LocalMasterKey
from memoranda_facts import FactMemory
from servers import postgres_server, redis_server

CANARY = "quokkawombat"


async def written(store: Store) -> None:
    """Use the store in every way that writes, with a canary in everything that is said."""
    owner = MemoryMetadata(user_id="ada", session_id="s", extra={f"key{CANARY}": f"value{CANARY}"})
    call = {"id": f"call{CANARY}", "name": f"tool{CANARY}", "arguments": {"q": f"ask{CANARY}"}}
    await store.add(HumanMemory(id="one", content=f"I like {CANARY} tea.", name=f"name{CANARY}", metadata=owner))
    await store.add_many(
        [
            AIMemory(content=f"{CANARY}!", tool_calls=[call], payload={"raw": CANARY}, metadata=owner),
            ToolMemory(content=CANARY, tool_call_id=f"call{CANARY}", tool_name=f"tool{CANARY}", metadata=owner),
        ]
    )
    fact = FactMemory(content=f"Ada likes {CANARY}.", subject=CANARY, predicate=CANARY, value=CANARY, metadata=owner)
    await store.add(fact)
    held = await store.get("one")
    assert held is not None
    await store.update(held.model_copy(update={"content": f"Now {CANARY} coffee."}))
    await store.approve("one", trust="operator", by=f"approver{CANARY}")
    for mode in ("text", "semantic", "hybrid"):
        if mode in store.capabilities:
            assert await store.search(query=CANARY, mode=mode)
    assert await store.search(query=CANARY.upper())
    assert await store.recall(f"Who likes {CANARY} tea?")
    await store.delete("one")
    await store.restore("one")


def found_in(folder: Path, *needles: bytes) -> list[str]:
    """Return the files below a folder that hold one of the needles."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    assert files
    return [str(path) for path in files if any(needle in path.read_bytes() for needle in needles)]


def needles() -> list[bytes]:
    """Return the canary as text, in capitals, in base64 at each offset, and as a vector."""
    texts = [CANARY.encode(), CANARY.upper().encode(), CANARY.encode("utf-16-le")]
    texts += [base64.b64encode(b"x" * offset + CANARY.encode())[4:-4] for offset in range(3)]
    vector = HashingEmbeddings(64).embed("Now quokkawombat coffee.")
    return [*texts, pack_vector(vector, 64)[:40]]


async def test_sqlite_file_log_and_ring_hold_nothing_in_clear(tmp_path: Path) -> None:
    ring = KeyRing(LocalMasterKey.generate(), tmp_path / "keys.db")
    url = f"sqlite:///{tmp_path}/store.db"
    async with memoranda.open(url, encrypt=ring, embeddings=HashingEmbeddings(64)) as store:
        await written(store)
        assert {path.name for path in tmp_path.iterdir()} >= {"store.db", "store.db-wal", "keys.db"}
        assert found_in(tmp_path, *needles()) == []
    assert found_in(tmp_path, *needles()) == []


async def test_the_canaries_are_found_where_nothing_is_encrypted(tmp_path: Path) -> None:
    async with memoranda.open(f"sqlite:///{tmp_path}/store.db", embeddings=HashingEmbeddings(64)) as store:
        await written(store)
    assert found_in(tmp_path, needles()[0])
    assert found_in(tmp_path, needles()[-1])


async def test_postgres_data_folder_holds_nothing_in_clear() -> None:
    import asyncpg

    with postgres_server() as server:
        async with memoranda.open(server.url, encrypt=KeyRing(LocalMasterKey.generate())) as store:
            await written(store)
        connection: Any = await asyncpg.connect(server.url)
        folder = Path(await connection.fetchval("SHOW data_directory"))
        await connection.execute("CHECKPOINT")
        await connection.close()
        assert found_in(folder, b"s1.")
        assert found_in(folder, *needles()) == []


async def test_redis_dump_holds_nothing_in_clear() -> None:
    from redis.asyncio import Redis

    with redis_server() as server:
        async with memoranda.open(server.url, encrypt=KeyRing(LocalMasterKey.generate())) as store:
            await written(store)
        client = Redis.from_url(server.url)
        await client.config_set("rdbcompression", "no")
        await client.save()
        config = await client.config_get("dir")
        name = await client.config_get("dbfilename")
        await client.aclose()
        dump = Path(config["dir"]) / name["dbfilename"]
        assert b"s1." in dump.read_bytes()
        assert found_in(dump.parent, *needles()) == []
