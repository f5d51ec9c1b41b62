"""A real Redis Cluster on loopback ports for tests."""

from __future__ import annotations

import contextlib

from memoranda_testing.servers._process import START_SECONDS, Server
from memoranda_testing.servers._redis import RedisNode, command, redis_binary
from memoranda_testing.servers._system import ServerError, wait_until

_SLOTS = 16384


def redis_cluster(nodes: int = 3) -> RedisCluster:
    """Return a Redis Cluster of `nodes` masters to use as a context manager."""
    if nodes < 1:
        raise ValueError(f"A cluster has at least one node, not {nodes}.")
    return RedisCluster(nodes)


class RedisCluster(Server):
    """Several Redis masters that share the slots; a call acts on all `nodes`, and each can be used alone."""

    def __init__(self, nodes: int) -> None:
        binary = redis_binary()
        settings = {"cluster-enabled": "yes", "cluster-node-timeout": "2000", "appendonly": "yes"}
        self.nodes = [RedisNode(binary, settings=settings) for _ in range(nodes)]
        self._joined = False

    @property
    def url(self) -> str:
        """The URL of the first node with the scheme `redis+cluster`; a client learns the others from it."""
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}/0"

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of every node."""
        return [("127.0.0.1", node.port) for node in self.nodes]

    def start(self) -> None:
        """Start every node, share the slots once, and wait until every node says `cluster_state:ok`."""
        with contextlib.ExitStack() as on_failure:
            on_failure.callback(self.close)
            for node in self.nodes:
                node.start()
            if not self._joined:
                self._join()
            if not wait_until(lambda: all(map(self._settled, self.nodes)), START_SECONDS):
                raise ServerError(
                    f"The Redis cluster was not ready after {START_SECONDS:.0f} seconds. "
                    f"The end of its first node's log:\n{self.nodes[0].log_tail}"
                )
            on_failure.pop_all()

    def stop(self) -> None:
        """Shut every node down in order."""
        for node in self.nodes:
            node.stop()

    def kill(self) -> None:
        """End every node with SIGKILL."""
        for node in self.nodes:
            node.kill()

    def pause(self) -> None:
        """Freeze every node."""
        for node in self.nodes:
            node.pause()

    def resume(self) -> None:
        """Let every paused node go on."""
        for node in self.nodes:
            node.resume()

    def close(self) -> None:
        """End every node and remove its folder."""
        for node in self.nodes:
            node.close()

    def _join(self) -> None:
        share = _SLOTS // len(self.nodes)
        for number, node in enumerate(self.nodes):
            first = number * share
            last = _SLOTS if node is self.nodes[-1] else first + share
            command(node.port, "CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            command(node.port, "CLUSTER", "ADDSLOTS", *map(str, range(first, last)))
        for node in self.nodes[1:]:
            command(self.nodes[0].port, "CLUSTER", "MEET", "127.0.0.1", str(node.port))
        self._joined = True

    def _settled(self, node: RedisNode) -> bool:
        try:
            state = command(node.port, "CLUSTER", "INFO").split("\r\n")
        except (OSError, ServerError):
            return False
        return "cluster_state:ok" in state and f"cluster_known_nodes:{len(self.nodes)}" in state
