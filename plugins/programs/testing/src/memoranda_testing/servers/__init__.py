"""Real servers for tests: PostgreSQL and Redis, without root or Docker.

Each starter returns a context manager that suits a session-scoped fixture:

    @pytest.fixture(scope="session")
    def postgres():
        with postgres_server() as server:
            yield server

    @pytest.fixture
    def database_url(postgres):
        with postgres.database() as url:
            yield url

A server listens on a free loopback port and is ready within four minutes; otherwise the error says why. It keeps port
and data over `restart`. A test can stop, kill and pause it to see what a store does then. Its processes and its folder
are gone in the end, even when the test run is killed.
"""

from memoranda_testing.servers._postgres import (
    ExternalPostgresServer,
    PostgresServer,
    fresh_database,
    postgres_server,
    query,
)
from memoranda_testing.servers._postgres_programs import POSTGRES_VARIABLE
from memoranda_testing.servers._process import ExternalServer, LocalServer, Server
from memoranda_testing.servers._programs import Candidate, add_fallback, programs_in_use
from memoranda_testing.servers._redis import REDIS_VARIABLE, RedisServer, redis_server
from memoranda_testing.servers._system import MissingServerError, ServerError, closed_port

__all__ = [
    "POSTGRES_VARIABLE",
    "REDIS_VARIABLE",
    "Candidate",
    "ExternalPostgresServer",
    "ExternalServer",
    "LocalServer",
    "MissingServerError",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerError",
    "add_fallback",
    "closed_port",
    "fresh_database",
    "postgres_server",
    "programs_in_use",
    "query",
    "redis_server",
]
