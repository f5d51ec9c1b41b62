"""The servers that other tests stand on: they start, take what is done to them, and leave nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import asyncpg
import pytest
import redis
import redis.cluster

from servers import (
    PGBOUNCER_VARIABLE,
    POSTGRES_VARIABLE,
    REDIS_VARIABLE,
    MissingServerError,
    PgBouncer,
    PostgresServer,
    RedisServer,
    ServerError,
    UnreliableNetwork,
    closed_port,
    fresh_database,
    pgbouncer,
    postgres_group,
    postgres_server,
    redis_cluster,
    redis_server,
    redis_tls_server,
    system_postgres_server,
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server(private=True) as server:
        yield server


@pytest.fixture(scope="module")
def durable_redis() -> Iterator[RedisServer]:
    with redis_server(persistent=True) as server:
        yield server


async def query(url: str, statement: str) -> object:
    connection = await asyncpg.connect(url, timeout=240)
    try:
        return await connection.fetchval(statement)
    finally:
        await connection.close()


async def test_postgres_answers_under_its_url(postgres: PostgresServer) -> None:
    assert await query(postgres.url, "SELECT 1") == 1


async def test_postgres_knows_letters_beyond_ascii(postgres: PostgresServer) -> None:
    assert await query(postgres.url, "SELECT lower('ЖÉ')") == "жé"


async def test_postgres_refuses_a_wrong_password(postgres: PostgresServer) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        await query(postgres.url.replace(postgres.password, "wrong"), "SELECT 1")


async def test_a_fresh_database_is_empty_and_gone_afterwards(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        await query(url, "CREATE TABLE here (id int)")
        with postgres.database() as other:
            assert await query(other, "SELECT to_regclass('here')") is None
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        await query(url, "SELECT 1")


async def test_a_fresh_database_keeps_its_settings_to_itself(postgres: PostgresServer) -> None:
    with fresh_database(postgres.url, settings={"search_path": "elsewhere"}) as url:
        assert await query(url, "SHOW search_path") == "elsewhere"
        assert await query(postgres.url, "SHOW search_path") != "elsewhere"


async def test_a_fresh_database_is_dropped_under_connected_clients(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        connection = await asyncpg.connect(url)
    with pytest.raises((asyncpg.PostgresError, asyncpg.InterfaceError, OSError)):
        await connection.fetchval("SELECT 1")
    connection.terminate()


async def test_a_killed_postgres_keeps_port_and_commits(postgres: PostgresServer) -> None:
    with postgres.database() as url:
        await query(url, "CREATE TABLE kept AS SELECT 7 AS number")
        postgres.kill()
        with pytest.raises(OSError):
            await query(url, "SELECT 1")
        postgres.start()
        assert await query(url, "SELECT number FROM kept") == 7


async def test_a_restarted_postgres_answers_under_the_same_url(postgres: PostgresServer) -> None:
    url = postgres.url
    postgres.restart()
    assert await query(url, "SELECT 1") == 1


async def test_a_paused_postgres_is_silent_until_it_is_resumed(postgres: PostgresServer) -> None:
    connection = await asyncpg.connect(postgres.url)
    postgres.pause()
    answer = asyncio.ensure_future(connection.fetchval("SELECT 1"))
    done, _ = await asyncio.wait([answer], timeout=0.3)
    postgres.resume()
    assert not done
    assert await asyncio.wait_for(answer, 240) == 1
    await connection.close()


async def test_the_system_postgres_is_started_where_there_is_one() -> None:
    server = system_postgres_server()
    if server is None:
        pytest.skip("The system has no PostgreSQL of its own, and no way to one.")
    with server:
        assert f"PostgreSQL {server.version}" in str(await query(server.url, "SELECT version()"))


def test_an_environment_url_is_used_and_cannot_be_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, "postgresql://db.example/test")
    with postgres_server() as server:
        assert server.url == "postgresql://db.example/test"
        with pytest.raises(ServerError, match="private=True"):
            server.kill()


async def test_a_database_is_made_on_the_server_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, postgres: PostgresServer
) -> None:
    monkeypatch.setenv(POSTGRES_VARIABLE, postgres.url)
    with postgres_server() as server, server.database() as url:
        assert str(await query(url, "SELECT current_database()")).startswith("memoranda_test_")


def test_a_private_server_passes_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REDIS_VARIABLE, "redis://cache.example/0")
    with redis_server() as external, redis_server(private=True) as private:
        assert external.url == "redis://cache.example/0"
        assert private.url.startswith("redis://127.0.0.1:")


def test_a_server_that_cannot_start_shows_the_end_of_its_log() -> None:
    with pytest.raises(ServerError, match="no_such_setting"):
        postgres_server(settings={"no_such_setting": "1"}).start()


def test_redis_answers_under_its_url(durable_redis: RedisServer) -> None:
    with redis.Redis.from_url(durable_redis.url) as client:
        assert client.ping()


def test_a_killed_persistent_redis_keeps_port_and_data(durable_redis: RedisServer) -> None:
    with redis.Redis.from_url(durable_redis.url) as client:
        client.set("kept", "yes")
        durable_redis.kill()
        with pytest.raises(redis.exceptions.ConnectionError):
            client.ping()
        durable_redis.start()
        assert client.get("kept") == b"yes"


def test_a_paused_redis_is_silent_until_it_is_resumed(durable_redis: RedisServer) -> None:
    with redis.Redis.from_url(durable_redis.url, socket_timeout=0.2, retry=None) as client:
        durable_redis.pause()
        with pytest.raises(redis.exceptions.TimeoutError):
            client.ping()
        durable_redis.resume()
    with redis.Redis.from_url(durable_redis.url) as patient:
        assert patient.ping()


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux lets a server listen on a port that is held.")
def test_the_port_of_a_stopped_server_is_given_to_nobody_else(durable_redis: RedisServer) -> None:
    durable_redis.stop()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", durable_redis.port))
    assert not _listening(durable_redis.port)
    durable_redis.start()
    assert _listening(durable_redis.port)


def test_nobody_listens_on_a_closed_port_and_nobody_can() -> None:
    with closed_port() as port:
        assert not _listening(port)
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))


def test_a_redis_with_a_password_refuses_clients_without_it() -> None:
    with redis_server(password="p/w:ü") as server:
        with redis.Redis.from_url(server.url) as client:
            assert client.ping()
        with (
            redis.Redis(port=server.port, retry=None) as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.ping()


def test_a_redis_user_has_its_rights_and_no_others() -> None:
    with redis_server(users={"reader": ("secret", "~agent:* +@read +@connection")}) as server:
        with redis.Redis.from_url(server.url_for("reader")) as client:
            assert client.get("agent:nova") is None
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.set("agent:nova", "no")
        with (
            redis.Redis(port=server.port, retry=None) as stranger,
            pytest.raises(redis.exceptions.AuthenticationError),
        ):
            stranger.ping()


def test_a_redis_with_tls_is_trusted_through_its_authority_only() -> None:
    with redis_tls_server() as server:
        url, authority = server.url, server.certificates.authority
        with redis.Redis.from_url(url, ssl_ca_certs=str(authority)) as client:
            assert client.ping()
            server.restart()
            assert client.ping()
        with (
            redis.Redis.from_url(url, retry=None) as stranger,
            pytest.raises(redis.exceptions.ConnectionError),
        ):
            stranger.ping()


def test_a_redis_that_asks_for_client_certificates_refuses_clients_without_one() -> None:
    with redis_tls_server(client_certificates=True) as server:
        files = server.certificates
        trusted = {"ssl_ca_certs": str(files.authority), "retry": None}
        own = {"ssl_certfile": str(files.client_certificate), "ssl_keyfile": str(files.client_key)}
        with redis.Redis.from_url(server.url, **trusted, **own) as client:
            assert client.ping()
        with (
            redis.Redis.from_url(server.url, **trusted) as stranger,
            pytest.raises((redis.exceptions.ConnectionError, ssl.SSLError)),
        ):
            stranger.ping()


@pytest.mark.slow
def test_a_redis_cluster_shares_its_slots_and_survives_a_kill() -> None:
    with redis_cluster(nodes=3) as cluster:
        _, port = cluster.addresses[0]
        with redis.cluster.RedisCluster(host="127.0.0.1", port=port) as client:
            for number in range(30):
                client.set(f"key:{number}", number)
        assert all(_key_count(port) for _, port in cluster.addresses)
        cluster.kill()
        cluster.start()
        assert sum(_key_count(port) for _, port in cluster.addresses) == 30


def test_nothing_is_left_after_the_end() -> None:
    with redis_server(private=True) as server:
        folder, port = server.folder, server.port
    assert not folder.exists()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_nothing_is_left_after_a_server_died_by_itself() -> None:
    with postgres_server(private=True) as server:
        folder = server.folder
        os.kill(int((folder / "server.pid").read_text()), signal.SIGKILL)
    assert not folder.exists()


@pytest.mark.parametrize("ending", ["normal", "killed"])
def test_nothing_is_left_after_a_test_run_that_never_closed_its_server(ending: str) -> None:
    script = """
        import os, signal, sys, time
        from servers import postgres_server

        server = postgres_server(private=True)
        server.start()
        print(server.folder, server.port, flush=True)
        if sys.argv[1] == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), ending],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )
    folder, port = run.stdout.split()
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and (Path(folder).exists() or _listening(int(port))):
        time.sleep(0.05)
    assert not Path(folder).exists()
    assert not _listening(int(port))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")  # From Python 3.12 on.
def test_a_forked_process_does_not_end_its_parents_server() -> None:
    with redis_server(private=True) as server:
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                server.close()
            os._exit(0)
        os.waitpid(child, 0)
        assert server.folder.exists()
        assert _listening(server.port)


def _key_count(port: int) -> int:
    with redis.Redis(port=port) as node:
        return int(node.dbsize())


def _listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def test_a_network_to_a_server_that_is_gone_breaks_the_connection() -> None:
    with closed_port() as port:
        async with UnreliableNetwork(f"postgresql://127.0.0.1:{port}/x") as network:
            address = urlsplit(network.url)
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            with contextlib.suppress(ConnectionError):
                assert await asyncio.wait_for(reader.read(), 240) == b""
            writer.close()


@pytest.fixture
def pooler(postgres: PostgresServer) -> Iterator[PgBouncer]:
    with contextlib.ExitStack() as stack:
        try:
            running = stack.enter_context(pgbouncer(postgres.url))
        except MissingServerError as missing:
            pytest.skip(str(missing))
        yield running


async def test_a_pooler_gives_a_transaction_to_whichever_server_process_is_free(pooler: PgBouncer) -> None:
    with pooler.database() as url:
        # A statement cannot be prepared here and used there.
        first, second = [await asyncpg.connect(url, statement_cache_size=0) for _ in range(2)]
        await first.execute("BEGIN")
        await second.execute("BEGIN")
        asked = "SELECT pg_backend_pid()"
        assert await first.fetchval(asked) != await second.fetchval(asked)
        await first.execute("COMMIT")
        await second.execute("COMMIT")
        await first.close()
        await second.close()


def test_a_machine_that_can_have_no_pooler_says_what_it_lacks(
    postgres: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if Path("/usr/sbin/pgbouncer").exists():
        pytest.skip("PgBouncer is installed, and is found without a PATH")
    monkeypatch.delenv(PGBOUNCER_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingServerError, match=PGBOUNCER_VARIABLE), pgbouncer(postgres.url):
        pass


async def test_a_standby_that_is_promoted_has_what_was_confirmed_and_the_old_primary_can_follow_it() -> None:
    with postgres_group(2, synchronous=True) as group:
        old = group.primary
        await query(old.url, "CREATE TABLE kept AS SELECT 7 AS number")
        old.kill()
        new = group.fail_over()
        assert await query(new.url, "SELECT number FROM kept") == 7
        old.rejoin(new)
        group.wait_until_followed()
        assert await query(old.url, "SELECT pg_is_in_recovery()") is True
