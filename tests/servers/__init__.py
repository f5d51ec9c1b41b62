"""Real servers for tests and benchmarks: PostgreSQL and Redis, without root or Docker.

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

There are also groups of servers (a Redis Cluster, PostgreSQL with standbys, Patroni), what stands before one
(PgBouncer, TLS, a network that breaks), a model's API that misbehaves on demand, and an empty store of every engine.
:mod:`servers.writers` writes to a store while servers fail, and checks what each call promised.
"""

from servers.engines import ENGINES, LASTING_ENGINES, Engines
from servers.fallbacks import add_debian_fallbacks, system_postgres_server
from servers.local_postgres import (
    ExternalPostgresServer,
    PostgresServer,
    fresh_database,
    postgres_server,
    query,
)
from servers.local_redis import REDIS_VARIABLE, RedisServer, redis_server
from servers.model_api import ModelServer, completion, model_server
from servers.network import UnreliableNetwork
from servers.patroni import PatroniGroup, PatroniNode, patroni_group
from servers.pgbouncer import PGBOUNCER_VARIABLE, PgBouncer, pgbouncer
from servers.postgres_group import PostgresGroup, PostgresNode, postgres_group
from servers.postgres_programs import POSTGRES_VARIABLE
from servers.process import ExternalServer, LocalServer, Server
from servers.programs import Candidate, add_fallback, programs_in_use
from servers.redis_cluster import RedisCluster, redis_cluster
from servers.redis_tls import redis_tls_server
from servers.system import MissingServerError, ServerError, closed_port

__all__ = [
    "ENGINES",
    "LASTING_ENGINES",
    "PGBOUNCER_VARIABLE",
    "POSTGRES_VARIABLE",
    "REDIS_VARIABLE",
    "Candidate",
    "Engines",
    "ExternalPostgresServer",
    "ExternalServer",
    "LocalServer",
    "MissingServerError",
    "ModelServer",
    "PatroniGroup",
    "PatroniNode",
    "PgBouncer",
    "PostgresGroup",
    "PostgresNode",
    "PostgresServer",
    "RedisCluster",
    "RedisServer",
    "Server",
    "ServerError",
    "UnreliableNetwork",
    "add_debian_fallbacks",
    "add_fallback",
    "closed_port",
    "completion",
    "fresh_database",
    "model_server",
    "patroni_group",
    "pgbouncer",
    "postgres_group",
    "postgres_server",
    "programs_in_use",
    "query",
    "redis_cluster",
    "redis_server",
    "redis_tls_server",
    "system_postgres_server",
]
