"""The servers that only this repository's own tests and benchmarks start, beside `memoranda_testing.servers`.

They are groups of servers (a Redis Cluster, PostgreSQL with standbys, Patroni), what stands before one (PgBouncer, TLS,
a network that breaks), a model's API that misbehaves on demand, and an empty store of every engine.
:mod:`servers.writers` writes to a store while servers fail, and checks what each call promised.
"""

from servers.engines import ENGINES, LASTING_ENGINES, Engines
from servers.fallbacks import add_debian_fallbacks, system_postgres_server
from servers.model_api import ModelServer, completion, model_server
from servers.network import UnreliableNetwork
from servers.patroni import PatroniGroup, PatroniNode, patroni_group
from servers.pgbouncer import PGBOUNCER_VARIABLE, PgBouncer, pgbouncer
from servers.postgres_group import PostgresGroup, PostgresNode, postgres_group
from servers.redis_cluster import RedisCluster, redis_cluster
from servers.redis_tls import redis_tls_server

__all__ = [
    "ENGINES",
    "LASTING_ENGINES",
    "PGBOUNCER_VARIABLE",
    "Engines",
    "ModelServer",
    "PatroniGroup",
    "PatroniNode",
    "PgBouncer",
    "PostgresGroup",
    "PostgresNode",
    "RedisCluster",
    "UnreliableNetwork",
    "add_debian_fallbacks",
    "completion",
    "model_server",
    "patroni_group",
    "pgbouncer",
    "postgres_group",
    "redis_cluster",
    "redis_tls_server",
    "system_postgres_server",
]
