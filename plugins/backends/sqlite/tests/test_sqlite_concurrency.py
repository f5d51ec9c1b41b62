"""Several processes, event loops and coroutines on one file: nothing is lost, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from memoranda import HumanMemory, MemoryMetadata
from memoranda.errors import IdConflictError, StoreClosedError, StoreMisuseError, StoreUnavailableError
from memoranda_sqlite import SQLiteMemoryStore

PROCESSES = 4
COROUTINES = 20
EACH = 15
SEARCHES = 5


def run_python(code: str, *arguments: object) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(process: subprocess.Popen[bytes], told: bytes = b"") -> bytes:
    try:
        output, errors = process.communicate(told, timeout=240)
    finally:
        process.kill()
    assert process.returncode == 0, errors.decode()
    return output


@pytest.mark.rare
async def test_processes_and_coroutines_lose_nothing(tmp_path: Path) -> None:
    """All of them create the file, write and read at once."""
    path = tmp_path / "memories.db"
    code = f"""
        import asyncio, sys
        from memoranda import HumanMemory, MemoryMetadata
        from memoranda_sqlite import SQLiteMemoryStore

        async def one(store, process, number):
            scope = MemoryMetadata(user_id=process, session_id=str(number))
            for turn in range({EACH}):
                await store.add(HumanMemory(id=f"{{process}}-{{number}}-{{turn}}", content="tea", metadata=scope))
                assert len(await store.search(metadata=scope, limit=1000)) == turn + 1

        async def main(path, process):
            async with SQLiteMemoryStore(path) as store:
                await asyncio.gather(*(one(store, process, number) for number in range({COROUTINES})))

        asyncio.run(main(*sys.argv[1:]))
    """
    for process in [run_python(code, path, f"p{number}") for number in range(PROCESSES)]:
        finish(process)
    async with SQLiteMemoryStore(path) as store:
        assert await store.count() == PROCESSES * COROUTINES * EACH
        assert len(await store.search(query="EA", limit=10_000)) == PROCESSES * COROUTINES * EACH


@pytest.mark.rare
async def test_one_item_replaced_by_all_has_a_version_for_each(tmp_path: Path) -> None:
    path = tmp_path / "memories.db"
    code = """
        import asyncio, sys
        from memoranda import HumanMemory
        from memoranda_sqlite import SQLiteMemoryStore

        async def main(path):
            async with SQLiteMemoryStore(path) as store:
                await asyncio.gather(*(store.add(HumanMemory(id="one", content=str(n))) for n in range(50)))

        asyncio.run(main(sys.argv[1]))
    """
    for process in [run_python(code, path) for _ in range(PROCESSES)]:
        finish(process)
    async with SQLiteMemoryStore(path) as store:
        item = await store.get("one")
        assert item is not None
        assert item.version == 50 * PROCESSES


@pytest.mark.rare
async def test_stores_that_make_a_file_at_once_do_not_refuse_what_the_others_have_begun(tmp_path: Path) -> None:
    for number in range(40):
        stores = [SQLiteMemoryStore(tmp_path / f"{number}.db") for _ in range(8)]
        await asyncio.gather(*(store.init() for store in stores))
        await asyncio.gather(*(store.close() for store in stores))


async def test_eight_stores_create_one_new_file(tmp_path: Path) -> None:
    stores = [SQLiteMemoryStore(tmp_path / "memories.db") for _ in range(8)]
    await asyncio.gather(*(store.init() for store in stores))
    await asyncio.gather(*(store.add(HumanMemory(content="x")) for store in stores))
    assert [await store.count() for store in stores] == [8] * 8
    await asyncio.gather(*(store.close() for store in stores))


async def test_a_refused_item_fails_nobody_else(tmp_path: Path) -> None:
    """Adds that share a commit each get their own answer."""
    async with SQLiteMemoryStore(tmp_path / "memories.db") as store:
        await store.add(HumanMemory(id="taken", content="hers", metadata=MemoryMetadata(user_id="ada")))
        items = [HumanMemory(id=f"new-{number}", content="x") for number in range(20)]
        items.insert(10, HumanMemory(id="taken", content="his", metadata=MemoryMetadata(user_id="bob")))
        results = await asyncio.gather(*(store.add(item) for item in items), return_exceptions=True)
        assert isinstance(results.pop(10), IdConflictError)
        assert results == [None] * 20
        assert await store.count() == 21
        kept = await store.get("taken")
        assert kept is not None
        assert kept.content == "hers"
        assert [(await store.get(f"new-{number}")).version for number in range(20)] == [1] * 20  # type: ignore[union-attr]


async def test_a_cancelled_call_leaves_no_open_transaction(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store, SQLiteMemoryStore(tmp_path / "a.db") as other:
        for turn in range(50):
            calls = [asyncio.create_task(store.add(HumanMemory(content="x" * 1000))) for _ in range(5)]
            calls.append(asyncio.create_task(store.add_many([HumanMemory(content="y") for _ in range(50)])))
            await asyncio.sleep(turn / 20_000)
            for call in calls:
                call.cancel()
            await asyncio.gather(*calls, return_exceptions=True)
            await asyncio.wait_for(other.add(HumanMemory(id=f"other-{turn}", content="z")), 240)
        await store.add(HumanMemory(id="last", content="z"))
        assert await other.get("last") is not None
        items = [item async for item in other.scan()]
        # Whatever became of the cancelled ones, each add_many is there as a whole or not at all.
        assert sum(item.content == "y" for item in items) % 50 == 0


async def test_a_call_that_times_out_does_not_hold_up_the_next(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(store.add_many([HumanMemory(content="x") for _ in range(5_000)]), 0.000_001)
        await asyncio.wait_for(store.add(HumanMemory(id="next", content="x")), 240)
        assert await store.get("next") is not None


async def test_close_waits_for_what_is_under_way(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    await store.init()
    items = [HumanMemory(content="tea " * 50) for _ in range(300)]
    calls = [asyncio.create_task(store.add(item)) for item in items[:200]]
    calls.append(asyncio.create_task(store.add_many(items[200:])))
    searches = [asyncio.create_task(store.search(query="zzz", limit=10_000)) for _ in range(4)]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*calls, *searches)
    with pytest.raises(StoreClosedError):
        await store.add(items[0])
    async with store:
        assert await store.count() == 300


async def test_readers_are_not_held_up_by_a_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path) as store:
        await store.add(HumanMemory(id="one", content="tea"))
        holder = run_python(
            """
            import sqlite3, sys
            connection = sqlite3.connect(sys.argv[1], isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("UPDATE memory_items SET content = 'coffee'")
            print("held", flush=True)
            sys.stdin.readline()
            connection.execute("ROLLBACK")
            """,
            path,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        # The writer holds the file until it is told to let go, so these would wait for ever if they waited for it.
        for _ in range(20):
            assert (await store.get("one")).content == "tea"  # type: ignore[union-attr]
            assert len(await store.search(query="tea")) == 1
            assert await store.count() == 1
        # A write waits its turn and is then done.
        adding = asyncio.create_task(store.add(HumanMemory(id="two", content="tea")))
        await asyncio.sleep(0)
        finish(holder, b"\n")
        await adding


async def test_a_file_that_stays_locked_is_a_clear_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    async with SQLiteMemoryStore(path, busy_timeout=0.2) as store, SQLiteMemoryStore(path) as other:
        locked = threading.Event()
        done = threading.Event()

        def hold() -> None:
            import sqlite3

            connection = sqlite3.connect(path, isolation_level=None)
            connection.execute("BEGIN IMMEDIATE")
            locked.set()
            done.wait(200)
            connection.execute("ROLLBACK")
            connection.close()

        thread = threading.Thread(target=hold)
        thread.start()
        await asyncio.to_thread(locked.wait)
        items = [HumanMemory(content="x") for _ in range(5)]
        results = await asyncio.gather(*(store.add(item) for item in items), return_exceptions=True)
        assert all(isinstance(result, StoreUnavailableError) for result in results)
        assert "a.db" in str(results[0])
        done.set()
        await asyncio.to_thread(thread.join)
        await store.add(items[0])
        assert await other.count() == 1


@pytest.mark.rare
async def test_a_forked_child_gets_a_clear_error_and_can_open_its_own(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    output = finish(
        run_python(
            """
            import asyncio, os, sys, warnings
            from memoranda import HumanMemory
            from memoranda.errors import StoreMisuseError
            from memoranda_sqlite import SQLiteMemoryStore

            warnings.simplefilter("ignore")
            loop = asyncio.new_event_loop()
            store = SQLiteMemoryStore(sys.argv[1])
            loop.run_until_complete(store.init())
            loop.run_until_complete(store.add(HumanMemory(id="parent", content="x")))
            child = os.fork()
            if child == 0:
                async def main():
                    for call in (store.get("parent"), store.add(HumanMemory(content="y")), store.search(query="x")):
                        try:
                            await asyncio.wait_for(call, 240)
                        except StoreMisuseError as error:
                            print("refused:", error, flush=True)
                    async with SQLiteMemoryStore(sys.argv[1]) as own:
                        await own.add(HumanMemory(id="child", content="y"))
                        print("own", await own.count(), flush=True)
                    await store.close()
                asyncio.new_event_loop().run_until_complete(main())
                os._exit(0)  # The parent's event loop must not be closed here: both share its file descriptors.
            _, status = os.waitpid(child, 0)
            assert status == 0, status
            loop.run_until_complete(store.add(HumanMemory(id="after", content="z")))
            print("count", loop.run_until_complete(store.count()))
            loop.run_until_complete(store.close())
            """,
            path,
        )
    )
    lines = output.decode().splitlines()
    assert [line.split(":")[0] for line in lines] == ["refused", "refused", "refused", "own 2", "count 3"]
    assert "fork" in lines[0]
    assert issubclass(StoreMisuseError, RuntimeError)


def test_a_second_event_loop_may_use_the_store(tmp_path: Path) -> None:
    """Programs that call asyncio.run() several times keep their store; a call cut off with its loop does no harm."""
    store = SQLiteMemoryStore(tmp_path / "a.db")
    cut_off: list[asyncio.Future[None]] = []

    async def first() -> None:
        await store.init()
        await store.add(HumanMemory(id="one", content="tea"))
        batches = [[HumanMemory(content="x") for _ in range(200)] for _ in range(20)]
        cut_off.extend(asyncio.ensure_future(store.add_many(batch)) for batch in batches)
        await asyncio.sleep(0)

    async def second() -> int:
        await store.add(HumanMemory(id="two", content="tea"))
        found = await store.search(query="tea")
        await store.close()
        return len(found)

    asyncio.run(first())
    assert asyncio.run(asyncio.wait_for(second(), 200)) == 2


def test_two_event_loops_may_use_the_store_at_once(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    asyncio.run(store.init())
    failures: list[BaseException] = []

    async def work(name: str) -> None:
        scope = MemoryMetadata(user_id=name)
        for number in range(100):
            await store.add(HumanMemory(content=f"tea {number}", metadata=scope))
            assert len(await store.search(metadata=scope, limit=1000)) == number + 1
            assert len(await store.search(metadata=scope, query=f"TEA {number}")) == 1

    def run(name: str) -> None:
        try:
            asyncio.run(work(name))
        except BaseException as error:  # noqa: BLE001 - reported by the test
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in ("ada", "bob", "cyd")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []

    async def end() -> int:
        count = await store.count()
        await store.close()
        return count

    assert asyncio.run(end()) == 300


@pytest.mark.rare
def test_a_program_that_forgets_to_close_comes_to_its_end(tmp_path: Path) -> None:
    process = run_python(
        """
        import asyncio, sys
        from memoranda import HumanMemory
        from memoranda_sqlite import SQLiteMemoryStore

        store = SQLiteMemoryStore(sys.argv[1])

        async def main():
            await store.init()
            await store.add(HumanMemory(id="one", content="x"))
            await store.search(query="zzz", limit=1000)

        asyncio.run(main())
        """,
        tmp_path / "a.db",
    )
    finish(process)

    async def check() -> None:
        async with SQLiteMemoryStore(tmp_path / "a.db") as store:
            assert await store.get("one") is not None

    asyncio.run(check())


async def longest_share(store: SQLiteMemoryStore) -> float:
    """Search several times at once, and return how much of that work was done in the longest turn of the loop."""
    pauses = [0.0]
    searching = True

    async def tick() -> None:
        last = time.thread_time()
        while searching:
            await asyncio.sleep(0.001)
            pauses.append(time.thread_time() - last)
            last = time.thread_time()

    gc.collect()
    gc.disable()  # The garbage of all that ran before is no work of a search.
    try:
        ticking = asyncio.create_task(tick())
        started = time.process_time()
        await asyncio.gather(*(store.search(query="zq", limit=10) for _ in range(SEARCHES)))
        worked = time.process_time() - started
        searching = False
        await ticking
    finally:
        gc.enable()
    return max(pauses) / worked


@pytest.mark.slow
async def test_the_event_loop_goes_on_during_long_searches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scans run on threads: no turn of the loop does the work of one of them, however busy the machine is."""
    for bound in ("FILL_AT", "FILL_AT_REST"):  # Nobody works but those who search.
        monkeypatch.setattr(f"memoranda_sqlite.indexing.{bound}", 10**9)
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(content=f"number {number} " + "tea " * 20) for number in range(20_000)])
        # Of several rounds the best: a machine that is taken away for a moment may be charged to any turn.
        assert min([await longest_share(store) for _ in range(4)]) < 1 / SEARCHES / 2


async def test_long_contents_are_read_like_others(tmp_path: Path) -> None:
    """Rows that are too long for the event loop are read on a thread."""
    contents = ["x" * length for length in (60_000, 70_000, 3_000_000)]
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add_many([HumanMemory(id=str(len(content)), content=content) for content in contents])
        for content in contents:
            assert (await store.get(str(len(content)))).content == content  # type: ignore[union-attr]
        assert {item.content for item in await store.search()} == set(contents)
        assert len(await store.search(query="XXX")) == 3


async def test_what_the_event_loop_reads_leaves_no_bounds_to_what_is_written_next(tmp_path: Path) -> None:
    async with SQLiteMemoryStore(tmp_path / "a.db") as store:
        await store.add(HumanMemory(id="long", content="x" * 500_000))
        assert await store.get("long") is not None
        await store.add(HumanMemory(id="short", content="x"))
        assert await store.get("short") is not None

        await store.add_many([HumanMemory(content="x") for _ in range(2_000)])
        stored = await store.get("long")
        assert stored is not None
        updated = await store.update(stored.model_copy(update={"content": "y" * 600_000}))

        assert updated.version == 2
        assert await store.count() == 2_002


async def test_close_waits_for_a_purge(tmp_path: Path) -> None:
    store = SQLiteMemoryStore(tmp_path / "a.db")
    await store.init()
    await store.add_many([HumanMemory(id=str(number), content="tea") for number in range(200)])
    await store.fill_indexes()
    await store.search_ranked(query="tea", mode="text")  # It imports the ranker.
    calls = [asyncio.create_task(store.purge(str(number))) for number in range(5)]
    calls += [asyncio.create_task(store.search_ranked(query="tea", mode="text")) for _ in range(3)]  # type: ignore[misc]
    await asyncio.sleep(0)
    await store.close()
    results = await asyncio.gather(*calls)
    assert results[:5] == [1] * 5


@pytest.mark.rare
async def test_a_fork_during_writes_does_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    finish(
        run_python(
            """
            import asyncio, os, sys, warnings
            from memoranda import HumanMemory
            from memoranda_sqlite import SQLiteMemoryStore

            warnings.simplefilter("ignore")

            async def main():
                async with SQLiteMemoryStore(sys.argv[1]) as store:
                    for turn in range(10):
                        items = [HumanMemory(id=f"{turn}-{n}", content="x") for n in range(20)]
                        calls = [asyncio.create_task(store.add(item)) for item in items]
                        await asyncio.sleep(0)
                        child = os.fork()
                        if child == 0:
                            os._exit(0)
                        await asyncio.gather(*calls)
                        os.waitpid(child, 0)
                    assert await store.count() == 200

            asyncio.run(main())
            """,
            path,
        )
    )


@pytest.mark.rare
async def test_a_child_that_is_forked_during_writes_can_write_to_the_file_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    finish(
        run_python(
            """
            import asyncio, os, sys, warnings
            from memoranda import HumanMemory
            from memoranda_sqlite import SQLiteMemoryStore

            warnings.simplefilter("ignore")

            async def own(turn):
                async with SQLiteMemoryStore(sys.argv[1], busy_timeout=240) as store:
                    await store.add(HumanMemory(id=f"child-{turn}", content="x"))

            async def main():
                async with SQLiteMemoryStore(sys.argv[1]) as store:
                    for turn in range(8):
                        items = [HumanMemory(id=f"{turn}-{n}", content="x") for n in range(20)]
                        calls = [asyncio.create_task(store.add(item)) for item in items]
                        await asyncio.sleep(0.0005)
                        child = os.fork()
                        if child == 0:
                            status = 1
                            try:
                                asyncio.events._set_running_loop(None)
                                asyncio.new_event_loop().run_until_complete(own(turn))
                                status = 0
                            finally:
                                os._exit(status)
                        await asyncio.gather(*calls)
                        _, status = await asyncio.to_thread(os.waitpid, child, 0)
                        assert status == 0
                    assert await store.count() == 168

            asyncio.run(main())
            """,
            path,
        )
    )


async def test_another_process_does_not_take_the_log_from_two_stores_of_this_one(tmp_path: Path) -> None:
    """Opening a second store must not end the locks of the first, or a process that closes the file removes its log."""
    path = tmp_path / "memories.db"
    code = """
        import asyncio, sys
        from memoranda_sqlite import SQLiteMemoryStore

        async def main():
            async with SQLiteMemoryStore(sys.argv[1]) as store:
                print(await store.count())

        asyncio.run(main())
    """
    async with SQLiteMemoryStore(path) as first:
        await first.add(HumanMemory(content="before"))
        for number in range(2):
            async with SQLiteMemoryStore(path) as second:
                await second.add(HumanMemory(content=f"second {number}"))
                assert finish(run_python(code, path)).split() == [b"%d" % (2 * number + 2)]
                await first.add(HumanMemory(content=f"first {number}"))
        assert await first.count() == 5
    async with SQLiteMemoryStore(path) as store:
        assert await store.count() == 5
