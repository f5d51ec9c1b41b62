"""Connections: bounded, retried, shared and silent about secrets; TLS, ACL users, agents and observers."""

from __future__ import annotations

import asyncio
import logging
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from redis.asyncio import Redis

from memoranda import InputError, MemoryItem
from memoranda.errors import CorruptStoreError, PluginError, StoreError, StoreUnavailableError
from memoranda.store import Observer
from memoranda_context import ContextManager
from memoranda_guard.redactor import Redactor
from memoranda_redis import ShortTermMemoryManager, get_short_term_memory
from memoranda_redis.plugin import memoranda_backends, memoranda_item_types
from servers import RedisServer, redis_cluster, redis_server, redis_tls_server


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may stop, kill and freeze; it keeps what it has acknowledged."""
    with redis_server(private=True, persistent=True) as server:
        assert isinstance(server, RedisServer)
        yield server


async def connections(server: RedisServer, most: int) -> int:
    """Return how many connections the server has, the one that asks included, once it has noticed which were closed."""
    deadline = time.monotonic() + 240
    async with Redis.from_url(server.url) as raw:
        while (found := len(await raw.client_list())) > most and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
    return found


def contents(memories: list[Any]) -> list[str]:
    return [memory.content for memory in memories]


# Connecting


async def test_connecting_again_does_nothing(memory: ShortTermMemoryManager) -> None:
    await memory.connect()
    await memory.connect()
    await asyncio.gather(*(memory.connect() for _ in range(10)))

    assert await memory.get_recent() == []


async def test_disconnecting_closes_every_connection(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url)
    await memory.connect()
    await asyncio.gather(*(memory.get_recent() for _ in range(5)))
    await memory.disconnect()
    await memory.disconnect()

    assert await connections(own_server, most=1) == 1


async def test_a_manager_works_again_after_disconnecting(memory: ShortTermMemoryManager) -> None:
    await memory.add_interaction("t", "before")
    await memory.disconnect()

    assert contents(await memory.get_recent()) == ["before"]


async def test_disconnecting_waits_for_writes_under_way(url: str, agent: str) -> None:
    memory = ShortTermMemoryManager(url, agent)
    writes = [asyncio.create_task(memory.add_interaction("t", str(number))) for number in range(50)]
    await asyncio.sleep(0)
    await memory.disconnect()
    await asyncio.gather(*writes)

    assert len(await memory.get_recent()) == 50
    await memory.disconnect()


async def test_a_manager_may_be_used_with_async_with(url: str, agent: str) -> None:
    async with ShortTermMemoryManager(url, agent) as memory:
        await memory.add_interaction("t", "x")

        assert contents(await memory.get_recent()) == ["x"]


async def test_the_shared_manager_is_the_same_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORANDA_REDIS_URL", raising=False)

    assert get_short_term_memory() is get_short_term_memory()
    assert get_short_term_memory().agent_id == "nova"
    assert "localhost:6379/0" in repr(get_short_term_memory())
    assert get_short_term_memory(agent_id="other") is not get_short_term_memory()


async def test_the_shared_manager_takes_its_url_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, agent: str
) -> None:
    monkeypatch.setenv("MEMORANDA_REDIS_URL", url)
    memory = get_short_term_memory(agent_id=agent)
    await memory.add_interaction("t", "x")

    assert contents(await memory.get_recent()) == ["x"]
    await memory.disconnect()


def test_a_manager_serves_one_event_loop_after_another(url: str, agent: str) -> None:
    memory = ShortTermMemoryManager(url, agent)

    async def one_more() -> int:
        await memory.add_interaction("t", "x")
        found = len(await memory.get_recent())
        await memory.disconnect()
        return found

    assert [asyncio.run(one_more()) for _ in range(3)] == [1, 2, 3]


def test_a_manager_outlives_an_event_loop_that_ended_without_disconnecting(url: str, agent: str) -> None:
    memory = ShortTermMemoryManager(url, agent)

    async def one_more(last: bool = False) -> int:
        await memory.add_interaction("t", "x")
        found = len(await memory.get_recent())
        if last:
            await memory.disconnect()
        return found

    assert [asyncio.run(one_more()), asyncio.run(one_more(last=True))] == [1, 2]


LEAVING = """
import asyncio, sys
from memoranda_redis import ShortTermMemoryManager

async def disconnect_while_others_connect(turns):
    memory = ShortTermMemoryManager(sys.argv[1], sys.argv[2])
    reads = [asyncio.create_task(memory.get_recent()) for _ in range(5)]
    for _ in range(turns):
        await asyncio.sleep(0)
    await memory.disconnect()
    assert await asyncio.gather(*reads) == [[]] * 5
    await memory.disconnect()

for turns in range(12):
    asyncio.run(disconnect_while_others_connect(turns))

memory = ShortTermMemoryManager(sys.argv[1], sys.argv[2])
loop = asyncio.new_event_loop()
loop.run_until_complete(memory.get_recent())
loop.close()
asyncio.run(memory.disconnect())
"""


def test_no_connection_is_left_to_the_garbage_collector(url: str, agent: str) -> None:
    """Neither of who waits to connect while another disconnects, nor of a loop that was closed without a word."""
    program = [sys.executable, "-W", "always::ResourceWarning", "-c", LEAVING, url, agent]
    done = subprocess.run(program, capture_output=True, text=True, timeout=250, check=False)
    # The driver's client of a cluster, with a capital letter, can only be closed in its loop; its connections are.
    assert (done.returncode, [line for line in done.stderr.splitlines() if "unclosed" in line]) == (0, [])


def test_a_manager_serves_several_threads(url: str, agent: str) -> None:
    memory = ShortTermMemoryManager(url, agent)

    async def write() -> None:
        await asyncio.gather(*(memory.add_interaction("t", "x") for _ in range(25)))
        await memory.disconnect()

    threads = [threading.Thread(target=lambda: asyncio.run(write())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    async def count() -> int:
        async with memory:
            return len(await memory.get_recent())

    assert asyncio.run(count()) == 100


@pytest.mark.rare
def test_several_processes_write_at_once(url: str, agent: str) -> None:
    program = (
        "import asyncio, sys\n"
        "from memoranda_redis import ShortTermMemoryManager\n"
        "async def main():\n"
        "    async with ShortTermMemoryManager(sys.argv[1], sys.argv[2]) as memory:\n"
        "        for number in range(40):\n"
        "            await memory.add_interaction('t', f'{sys.argv[3]} {number}', timestamp='2026-03-01')\n"
        "asyncio.run(main())\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", program, url, agent, str(number)]) for number in range(3)]

    assert [process.wait(200) for process in processes] == [0, 0, 0]

    async def found() -> list[Any]:
        async with ShortTermMemoryManager(url, agent) as memory:
            return await memory.get_recent(hours=1e6)

    memories = asyncio.run(found())
    assert len({memory.created_at for memory in memories}) == 120
    for process in "012":
        mine = [memory.content for memory in memories if memory.content.startswith(f"{process} ")]
        assert mine == [f"{process} {number}" for number in reversed(range(40))]


async def test_two_hundred_coroutines_share_a_small_pool(url: str, agent: str) -> None:
    async with ShortTermMemoryManager(url, agent, max_connections=4, timeout=240) as memory:

        async def work(number: int) -> int:
            await memory.add_interaction("t", str(number))
            return len(await memory.get_recent(limit=5))

        counts = await asyncio.gather(*(work(number) for number in range(200)))

        assert all(counts)
        assert len(await memory.get_recent()) == 200


async def test_no_more_connections_are_opened_than_allowed(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url, max_connections=3) as memory:
        await asyncio.gather(*(memory.get_recent() for _ in range(100)))
        assert await connections(own_server, most=3 + 1) <= 3 + 1


async def test_a_cancelled_write_takes_no_other_with_it(memory: ShortTermMemoryManager) -> None:
    writes = [asyncio.create_task(memory.add_interaction("t", str(number))) for number in range(20)]
    await asyncio.sleep(0)
    for write in writes[5:10]:
        write.cancel()

    results = await asyncio.gather(*writes, return_exceptions=True)

    assert all(isinstance(result, asyncio.CancelledError) for result in results[5:10])
    found = contents(await memory.get_recent())
    assert {str(number) for number in [*range(5), *range(10, 20)]} <= set(found)


def test_writes_that_nobody_waits_for_do_not_keep_a_program_from_ending(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url, timeout=30)

    async def leave() -> None:
        await memory.connect()
        own_server.pause()
        writes = [asyncio.create_task(memory.add_interaction("t", str(number))) for number in range(10)]
        await asyncio.sleep(0.1)
        own_server.resume()
        await writes[0]
        own_server.pause()
        await asyncio.sleep(0.1)

    start = time.monotonic()
    try:
        asyncio.run(leave())
    finally:
        own_server.resume()

    assert time.monotonic() - start < 20


async def test_a_local_socket_works() -> None:
    # The path of a socket has a hundred characters or so, fewer than those of some temporary folders.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder, redis_server(settings={"unixsocket": f"{folder}/s"}):
        path = f"{folder}/s"
        async with ShortTermMemoryManager(f"unix://{path}") as memory:
            await memory.add_interaction("t", "x")

            assert contents(await memory.get_recent()) == ["x"]
            assert path in repr(memory)


# Round trips


async def command_counts(raw: Any) -> dict[str, int]:
    stats = await raw.info("commandstats")
    return {name.removeprefix("cmdstat_"): stat["calls"] for name, stat in stats.items()}


async def test_a_write_and_a_read_of_any_size_are_one_command_each(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url) as memory, Redis.from_url(own_server.url) as raw:
        await memory.add_interaction("t", "first")
        await memory.get_recent()
        before = await command_counts(raw)
        for number in range(300):
            await memory.add_interaction("t", str(number))
        between = await command_counts(raw)
        await memory.get_recent()
        after = await command_counts(raw)

    assert between["evalsha"] - before["evalsha"] == 300
    assert after["evalsha"] - between["evalsha"] == 1
    assert after["mget"] - between["mget"] == 1
    assert {"keys", "scan", "hgetall"}.isdisjoint(after)


async def test_concurrent_writes_travel_together(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url) as memory, Redis.from_url(own_server.url) as raw:
        await memory.add_interaction("t", "first")
        before = await command_counts(raw)
        await asyncio.gather(*(memory.add_interaction("t", str(number)) for number in range(100)))
        after = await command_counts(raw)

    assert after["evalsha"] - before["evalsha"] <= 5


async def test_a_server_that_lost_its_scripts_is_given_them_again(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url) as memory, Redis.from_url(own_server.url) as raw:
        await memory.add_interaction("t", "one")
        await raw.script_flush()
        await memory.add_interaction("t", "two")
        await raw.script_flush()

        assert contents(await memory.get_recent()) == ["two", "one"]


# Failures


async def test_an_absent_server_is_a_connection_error_in_bounded_time(absent: int) -> None:
    memory = ShortTermMemoryManager(f"redis://127.0.0.1:{absent}/0", timeout=1)
    start = time.monotonic()

    with pytest.raises(ConnectionError, match=r"cannot be reached|did not answer") as caught:
        await memory.connect()

    assert isinstance(caught.value, StoreUnavailableError)
    assert time.monotonic() - start < 15
    await memory.disconnect()


async def test_a_silent_server_is_a_connection_error_in_bounded_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        memory = ShortTermMemoryManager(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", timeout=0.5)
        start = time.monotonic()

        with pytest.raises(ConnectionError, match="did not answer"):
            await memory.connect()

        assert time.monotonic() - start < 15
        await memory.disconnect()


async def test_an_absent_cluster_is_a_connection_error_in_bounded_time(absent: int) -> None:
    memory = ShortTermMemoryManager(f"redis+cluster://127.0.0.1:{absent}/0", timeout=1)
    start = time.monotonic()

    with pytest.raises(ConnectionError):
        await memory.connect()

    assert time.monotonic() - start < 15
    await memory.disconnect()


async def test_a_plain_server_is_no_cluster(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url.replace("redis://", "redis+cluster://"), timeout=2)

    with pytest.raises(ConnectionError):
        await memory.connect()
    await memory.disconnect()


async def test_reading_and_writing_without_a_server_are_connection_errors(absent: int) -> None:
    memory = ShortTermMemoryManager(f"redis://127.0.0.1:{absent}/0", timeout=1)

    with pytest.raises(ConnectionError):
        await memory.add_interaction("t", "x")
    with pytest.raises(ConnectionError):
        await memory.get_recent()
    await memory.disconnect()


async def test_the_same_manager_works_again_when_the_server_is_back(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url, timeout=8)
    await memory.add_interaction("t", "before")
    own_server.kill()
    with pytest.raises(ConnectionError):
        await memory.get_recent()
    own_server.start()

    assert contents(await memory.get_recent()) == ["before"]
    await memory.add_interaction("t", "after")
    assert contents(await memory.get_recent()) == ["after", "before"]
    await memory.disconnect()


async def test_a_restart_between_two_calls_goes_unnoticed(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url) as memory:
        await memory.add_interaction("t", "before")
        own_server.restart()

        assert contents(await memory.get_recent()) == ["before"]


async def test_a_call_waits_for_a_server_that_is_just_starting(own_server: RedisServer) -> None:
    async with ShortTermMemoryManager(own_server.url, timeout=10) as memory:
        await memory.add_interaction("t", "before")
        own_server.stop()
        reading = asyncio.create_task(memory.get_recent())
        await asyncio.sleep(0.1)
        own_server.start()

        assert contents(await reading) == ["before"]


@pytest.mark.rare
async def test_a_frozen_server_is_a_connection_error_until_it_goes_on(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url, timeout=3)
    await memory.add_interaction("t", "before")
    own_server.pause()
    try:
        start = time.monotonic()
        with pytest.raises(ConnectionError):
            await memory.get_recent()
        with pytest.raises(ConnectionError):
            await memory.add_interaction("t", "lost or not")
        assert time.monotonic() - start < 15
    finally:
        own_server.resume()

    assert "before" in contents(await memory.get_recent())
    await memory.disconnect()


@pytest.mark.rare
async def test_a_cluster_that_comes_back_is_used_again() -> None:
    with redis_cluster() as cluster:
        memory = ShortTermMemoryManager(cluster.url, "nova", timeout=8)
        await memory.add_interaction("t", "before")
        cluster.kill()
        with pytest.raises(ConnectionError):
            await ShortTermMemoryManager(cluster.url, "nova", timeout=1).connect()
        cluster.start()

        assert contents(await memory.get_recent()) == ["before"]
        await memory.disconnect()


async def test_every_waiting_write_hears_of_the_failure(own_server: RedisServer) -> None:
    memory = ShortTermMemoryManager(own_server.url, timeout=3)
    await memory.connect()
    own_server.kill()

    results = await asyncio.gather(
        *(memory.add_interaction("t", str(number)) for number in range(20)), return_exceptions=True
    )

    assert all(isinstance(result, ConnectionError) for result in results)
    await memory.disconnect()


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_write_whose_answer_was_lost_is_stored_once(wire: Any, agent: str, lost: int) -> None:
    async with ShortTermMemoryManager(wire.url, agent) as memory:
        await memory.add_interaction("t", "before", timestamp="2026-03-01")
        wire.lose_answers = lost
        added = await memory.add_interaction("t", "once", timestamp="2026-03-01")

        found = await memory.get_recent(hours=1e6)

    assert contents(found) == ["once", "before"]
    assert found[0] == added


async def test_a_gathered_write_whose_answer_was_lost_is_stored_once(wire: Any, agent: str) -> None:
    async with ShortTermMemoryManager(wire.url, agent) as memory:
        await memory.connect()
        wire.lose_answers = 2
        await asyncio.gather(*(memory.add_interaction("t", str(number)) for number in range(30)))

        found = await memory.get_recent()

    assert sorted(map(int, contents(found))) == list(range(30))


async def test_a_key_that_another_program_uses_is_named_as_the_trouble(
    memory: ShortTermMemoryManager, raw: Any, prefix: str
) -> None:
    await raw.set(f"{prefix}index", "not a sorted set")

    with pytest.raises(CorruptStoreError, match="another program"):
        await memory.add_interaction("t", "x", timestamp="2026-03-01")

    assert not await raw.exists(f"{prefix}2026-03-01T00:00:00.000000+00:00")


async def test_a_full_server_refuses_and_stores_nothing() -> None:
    with redis_server(settings={"maxmemory": "1mb", "maxmemory-policy": "noeviction"}) as server:
        async with ShortTermMemoryManager(server.url) as memory:
            with pytest.raises(StoreUnavailableError, match="refused"):
                await asyncio.gather(*(memory.add_interaction("t", "x" * 100_000) for _ in range(100)))


# Agents


@pytest.mark.rare
@pytest.mark.parametrize(
    "names",
    [
        ("a", "a:episodic:index"),
        ("a", "a*"),
        ("a*", "ab"),
        ("a?", "ab"),
        ("[ab]", "a"),
        ("{a}", "a"),
        ("a}", "a"),
        ("}", "{}"),
        ("a%7D", "a}"),
        ("a b", "a"),
        ("é", "e\u0301"),
        ("名前", "名"),
        ("a:episodic", "a"),
        (" ", "  "),
        ("A", "a"),
    ],
)
async def test_agents_never_see_each_other(url: str, names: tuple[str, str], agent: str) -> None:
    first, second = (ShortTermMemoryManager(url, f"{name}{agent}") for name in names)
    third, fourth = (ShortTermMemoryManager(url, f"{agent}{name}") for name in names)
    memories = [first, second, third, fourth]
    for number, memory in enumerate(memories):
        await memory.add_interaction("t", str(number), timestamp="2026-03-01")

    found = [contents(await memory.get_recent(hours=1e6)) for memory in memories]

    assert found == [["0"], ["1"], ["2"], ["3"]]
    for memory in memories:
        await memory.disconnect()


@pytest.mark.parametrize("agent_id", ["", None, 5, "a\0b"])
def test_an_agent_id_that_names_nobody_is_refused(agent_id: Any) -> None:
    with pytest.raises(ValueError, match="agent_id"):
        ShortTermMemoryManager(agent_id=agent_id)


# URLs and secrets


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:6379",
        "http://localhost",
        "redis://",
        "redis://localhost:port/0",
        "redis://localhost/zero",
        "redis://localhost/0?no_such_option=1",
        "redis+cluster://localhost:6379/1",
        "redis://:pa/ss@localhost",
        None,
    ],
)
def test_a_url_that_cannot_be_read_is_refused_without_quoting_it(url: Any) -> None:
    with pytest.raises(InputError) as caught:
        ShortTermMemoryManager(url)

    assert "pa/ss" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"), [("timeout", 0), ("timeout", float("inf")), ("max_connections", 0), ("max_connections", 1.5)]
)
def test_bounds_that_make_no_sense_are_refused(option: str, value: Any) -> None:
    with pytest.raises(InputError, match=option):
        ShortTermMemoryManager(**{option: value})


def test_a_repr_hides_the_password() -> None:
    assert "hidden" not in repr(ShortTermMemoryManager("redis://ada:hidden@localhost:6379/0"))
    assert "hidden" not in repr(ShortTermMemoryManager("rediss://:hidden@localhost:6379/0"))
    assert "hidden" not in repr(ShortTermMemoryManager("redis://localhost:6379/0?password=hidden"))


async def test_a_wrong_password_is_a_connection_error_that_hides_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with redis_server(password="right") as server:
        memory = ShortTermMemoryManager(server.url.replace("right", "hidden"), timeout=20)
        start = time.monotonic()

        with pytest.raises(ConnectionError, match="refused") as caught:
            await memory.connect()

        assert time.monotonic() - start < 15
        assert "hidden" not in str(caught.value)
        assert "hidden" not in caplog.text
        await memory.disconnect()


async def test_a_server_that_wants_a_password_refuses_to_go_without() -> None:
    with redis_server(password="right") as server:
        memory = ShortTermMemoryManager(server.url.replace(":right@", ""))

        with pytest.raises(ConnectionError, match="refused"):
            await memory.connect()
        await memory.disconnect()


async def test_the_right_password_opens_the_door() -> None:
    with redis_server(password="p@ss:w/rd?#%") as server:
        async with ShortTermMemoryManager(server.url) as memory:
            await memory.add_interaction("t", "x")

            assert contents(await memory.get_recent()) == ["x"]


async def test_an_acl_user_with_its_own_keys_can_work_and_nothing_else() -> None:
    rules = "~agent:nova:episodic:* +@read +@write +@connection +@scripting -@dangerous"
    with redis_server(users={"nova": ("secret", rules)}) as server:
        assert isinstance(server, RedisServer)
        async with ShortTermMemoryManager(server.url_for("nova"), "nova") as memory:
            await memory.add_interaction("t", "x")
            assert contents(await memory.get_recent()) == ["x"]
        async with ShortTermMemoryManager(server.url_for("nova"), "other") as memory:
            with pytest.raises(StoreError) as caught:
                await memory.add_interaction("t", "x")
        assert "secret" not in str(caught.value)


@pytest.mark.rare("tls")
async def test_tls_with_a_certificate_that_is_trusted_works() -> None:
    with redis_tls_server(password="right") as server:
        assert isinstance(server, RedisServer)
        url = f"{server.url}?ssl_ca_certs={server.certificates.authority}"
        async with ShortTermMemoryManager(url) as memory:
            await memory.add_interaction("t", "x")

            assert contents(await memory.get_recent()) == ["x"]


@pytest.mark.rare("tls")
async def test_tls_with_a_certificate_that_is_not_trusted_is_a_connection_error() -> None:
    with redis_tls_server() as server:
        memory = ShortTermMemoryManager(server.url, timeout=3)

        with pytest.raises(ConnectionError):
            await memory.connect()
        await memory.disconnect()


@pytest.mark.rare("tls")
async def test_a_server_that_wants_a_client_certificate_gets_one() -> None:
    with redis_tls_server(client_certificates=True) as server:
        assert isinstance(server, RedisServer)
        files = server.certificates
        trusting = f"{server.url}?ssl_ca_certs={files.authority}"
        async with ShortTermMemoryManager(
            f"{trusting}&ssl_certfile={files.client_certificate}&ssl_keyfile={files.client_key}"
        ) as memory:
            await memory.add_interaction("t", "x")
            assert contents(await memory.get_recent()) == ["x"]
        without = ShortTermMemoryManager(trusting, timeout=2)
        with pytest.raises(ConnectionError):
            await without.connect()
        await without.disconnect()


# Observers


async def test_the_redactor_hashes_before_anything_is_stored(url: str, agent: str, raw: Any, prefix: str) -> None:
    async with ShortTermMemoryManager(url, agent, redact=Redactor("k")) as memory:
        added = await memory.add_interaction("mail", "to ada@example.org", metadata={"phone": "+1 555 123 4567"})

        assert "ada@example.org" not in added.content
        assert await memory.get_recent() == [added]
    entry = await raw.get(f"{prefix}{added.created_at}")
    assert "example.org" not in entry
    assert "123 4567" not in entry


async def test_an_installed_observer_can_redact_by_its_name(url: str, agent: str) -> None:
    async with ShortTermMemoryManager(url, agent, redact="redact") as memory:
        added = await memory.add_interaction("mail", "to ada@example.org")

        assert "ada@example.org" not in added.content


def test_an_observer_that_is_not_installed_is_named() -> None:
    with pytest.raises(PluginError, match="no_such_observer"):
        ShortTermMemoryManager(redact="no_such_observer")


async def test_a_function_can_redact(url: str, agent: str) -> None:
    def shout(item: MemoryItem) -> MemoryItem:
        item.content = item.content.upper()
        item.mood = "loud"  # type: ignore[attr-defined]  # items keep fields that they do not know
        return item

    async with ShortTermMemoryManager(url, agent, redact=shout) as memory:
        added = await memory.add_interaction("t", "quiet")

        assert added.content == "QUIET"
        assert await memory.get_recent() == [added]


async def test_a_redaction_that_fails_stores_nothing(url: str, agent: str) -> None:
    def broken(item: MemoryItem) -> MemoryItem:
        raise RuntimeError("no")

    async with ShortTermMemoryManager(url, agent, redact=broken) as memory:
        with pytest.raises(PluginError):
            await memory.add_interaction("t", "x")

        assert await memory.get_recent() == []


async def test_a_redaction_that_makes_something_else_stores_nothing(url: str, agent: str) -> None:
    async with ShortTermMemoryManager(
        url, agent, redact=lambda item: MemoryItem(id=item.id, content="x", metadata=item.metadata)
    ) as memory:
        with pytest.raises(InputError):
            await memory.add_interaction("t", "x")


async def test_observers_hear_of_what_is_added_and_read(memory: ShortTermMemoryManager) -> None:
    heard: list[tuple[str, list[str]]] = []

    class Listener(Observer):
        def added(self, items: Any) -> None:
            heard.append(("added", contents(items)))

        def searched(self, query: str, items: Any) -> None:
            heard.append(("read", contents(items)))

    memory.observe(Listener())
    await memory.add_interaction("t", "x")
    await memory.get_recent()

    assert heard == [("added", ["x"]), ("read", ["x"])]


async def test_nothing_of_a_memory_is_logged_above_debug(
    memory: ShortTermMemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    await memory.add_interaction("t", "a secret wish")
    await memory.get_recent()

    assert "secret" not in caplog.text


# Context assembly


async def test_context_assembly_fetches_from_a_manager_that_is_not_connected(url: str, agent: str) -> None:
    memory = ShortTermMemoryManager(url, agent)
    await memory.add_interaction("posted_tweet", "AI just did something wild", platform="x")
    await memory.disconnect()

    context = await ContextManager().assemble_context("Generate a tweet about AI ethics", short_term_manager=memory)

    assert "posted_tweet on x: AI just did something wild" in str(context)
    await memory.disconnect()


async def test_context_assembly_without_redis_is_a_warning(absent: int) -> None:
    memory = ShortTermMemoryManager(f"redis://127.0.0.1:{absent}/0", timeout=0.5)

    context = await ContextManager().assemble_context("hello", short_term_manager=memory)

    assert "could not be fetched" in context.explain().warnings[0]
    assert "hello" in str(context)
    await memory.disconnect()


# The plugin


def test_the_plugin_offers_backend_and_item_type_without_importing_the_driver() -> None:
    program = (
        "import sys\nimport memoranda_redis.plugin\n"
        "sys.exit('redis' in sys.modules or 'memoranda_redis.manager' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
    assert [spec.schemes for spec in memoranda_backends()] == [("redis", "rediss", "redis+cluster", "rediss+cluster")]
    assert [spec.name for spec in memoranda_item_types()] == ["episodic"]


BLOCKED = """
import asyncio, sys, threading
import memoranda, memoranda.loops
from memoranda.errors import StoreClosedError
from redis import Redis

memoranda.loops.BLOCKED_AFTER = 0.05
blocked, may_go_on, over = threading.Event(), threading.Event(), threading.Event()
store = memoranda.open(sys.argv[1])

async def use():
    await store.init()
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: print("complaint", context["message"]))
    under_way = asyncio.ensure_future(store.count())
    await asyncio.sleep(0)
    blocked.set()
    may_go_on.wait()
    for call in (under_way, store.count()):
        try:
            await call
        except StoreClosedError:
            print("closed")
    over.set()

threading.Thread(target=lambda: asyncio.run(use()), daemon=True).start()
blocked.wait()
server = Redis.from_url(sys.argv[1])
asyncio.run(store.close())
while len(server.client_list()) > 1:
    pass
print("the server sees no other client")
if sys.argv[2] == "go on":
    may_go_on.set()
    over.wait()
"""


@pytest.mark.parametrize("then", ["go on", "exit"])
def test_the_connections_of_a_blocked_loop_are_cut_off_and_nothing_complains(
    own_server: RedisServer, then: str
) -> None:
    program = [sys.executable, "-W", "always", "-c", BLOCKED, own_server.url, then]
    done = subprocess.run(program, capture_output=True, text=True, timeout=250, check=False)
    told = ["the server sees no other client", *(["closed", "closed"] if then == "go on" else [])]
    assert (done.returncode, done.stdout.splitlines(), done.stderr) == (0, told, "")
