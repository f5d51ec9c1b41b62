"""Real servers for tests: PostgreSQL with standbys and poolers, Redis and its cluster, without root or Docker.

Each starter returns a context manager that suits a session-scoped fixture:

    @pytest.fixture(scope="session")
    def postgres():
        with postgres_server() as server:
            yield server

    @pytest.fixture
    def database_url(postgres):
        with postgres.database() as url:
            yield url

A server listens on a free loopback port, is ready within four minutes or says why not, keeps port and data
over `restart`, and can be stopped, killed and paused by a test that wants to see how a store takes it. Its
processes and its folder are gone in the end, even when the test run is killed.
"""

from memoranda_testing.servers._cluster import RedisCluster, redis_cluster
from memoranda_testing.servers._engines import ENGINES, LASTING_ENGINES, Engines
from memoranda_testing.servers._model import ModelServer, completion, model_server
from memoranda_testing.servers._network import UnreliableNetwork
from memoranda_testing.servers._patroni import ETCD_VARIABLE, PatroniGroup, PatroniNode, patroni_group
from memoranda_testing.servers._pgbouncer import PGBOUNCER_VARIABLE, PgBouncer, pgbouncer
from memoranda_testing.servers._postgres import (
    ExternalPostgresServer,
    PostgresServer,
    fresh_database,
    postgres_server,
    query,
    system_postgres_server,
)
from memoranda_testing.servers._postgres_programs import POSTGRES_VARIABLE
from memoranda_testing.servers._process import ExternalServer, LocalServer, Server
from memoranda_testing.servers._programs import programs_in_use
from memoranda_testing.servers._redis import REDIS_VARIABLE, RedisServer, redis_server
from memoranda_testing.servers._replication import PostgresGroup, PostgresNode, postgres_group
from memoranda_testing.servers._system import MissingServerError, ServerError, closed_port, free_port
from memoranda_testing.servers._tls import Certificates

__all__ = [
    "ENGINES",
    "ETCD_VARIABLE",
    "LASTING_ENGINES",
    "PGBOUNCER_VARIABLE",
    "POSTGRES_VARIABLE",
    "REDIS_VARIABLE",
    "Certificates",
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
    "closed_port",
    "completion",
    "free_port",
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
    "system_postgres_server",
]
