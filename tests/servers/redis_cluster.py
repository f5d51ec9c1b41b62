"""A real Redis Cluster on loopback ports for tests, with replicas or with TLS, whose slots can be moved."""

from __future__ import annotations

import contextlib
import random
import re
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import IO

from servers.local_redis import APPEND_ONLY, redis_program
from servers.process import START_SECONDS, Server
from servers.redis_tls import Certificates, TLSEntrance, TLSRedisServer
from servers.system import HeldPort, ServerError, wait_until

_SLOTS = 16384
_ANSWER_SECONDS = 240.0
_MOVED_TOGETHER = 50
_MOVED_WITHIN = "200000"
"""Milliseconds, fewer than a command waits for its answer."""


def redis_cluster(nodes: int = 3, *, replicas: int = 0, tls: bool = False) -> RedisCluster:
    """Return a Redis Cluster of `nodes` masters, each with `replicas`, to use as a context manager.

    With `tls`, clients need its `certificates`; there are no replicas then: the nodes speak plainly to each other.
    """
    if nodes < 1:
        raise ValueError(f"A cluster has at least one node, not {nodes}.")
    if tls and replicas:
        raise ValueError("A cluster with TLS has no replicas: they would follow their masters through the TLS port.")
    return RedisCluster(nodes, replicas, tls=tls)


class _TwoPorts(HeldPort):
    """The port of a node, and its second one, ten thousand above, on which the nodes talk to each other."""

    def _bound(self) -> list[socket.socket]:
        for _ in range(200):
            with contextlib.ExitStack() as on_failure, contextlib.suppress(OSError):
                lower = on_failure.enter_context(socket.socket())
                lower.bind(("127.0.0.1", random.randrange(20_000, 32_000)))
                upper = on_failure.enter_context(socket.socket())
                upper.bind(("127.0.0.1", lower.getsockname()[1] + 10_000))
                on_failure.pop_all()
                return [lower, upper]
        raise ServerError("No free pair of loopback ports was found for a node of a Redis cluster.")


class RedisNode(TLSRedisServer):
    """A Redis of a cluster."""

    name = "Redis cluster node"

    def _hold_port(self) -> HeldPort:
        return _TwoPorts()

    def _command(self) -> list[str]:
        arguments = super()._command()
        if self._entrance is not None:
            # Clients get the port that speaks TLS; the nodes find each other by the second one.
            arguments += ["--cluster-announce-port", str(self._entrance.reserve())]
            arguments += ["--cluster-announce-bus-port", str(self.port + 10_000)]
        return arguments


class RedisCluster(Server):
    """Redis masters that share the slots, and their replicas; a call acts on all `nodes`, each can be used alone."""

    def __init__(self, masters: int, replicas: int = 0, *, tls: bool = False) -> None:
        program = redis_program()
        settings = {"cluster-enabled": "yes", "cluster-node-timeout": "2000", **APPEND_ONLY}
        self._entrances = [TLSEntrance() for _ in range(masters)] if tls else []
        for entrance in self._entrances[1:]:
            entrance.share(self._entrances[0])
        entrances = self._entrances or [None] * masters * (1 + replicas)
        self.nodes = [RedisNode(program, settings=settings, entrance=entrance) for entrance in entrances]
        self._masters = masters
        self._joined = False

    @property
    def url(self) -> str:
        """The URL of the first node with the scheme `redis+cluster`, or with TLS `rediss+cluster`."""
        if self._entrances:
            return f"rediss+cluster://localhost:{self._entrances[0].port}/0"
        return f"redis+cluster://127.0.0.1:{self.nodes[0].port}/0"

    @property
    def certificates(self) -> Certificates:
        """The files that a client of a cluster with TLS needs."""
        if not self._entrances:
            raise ServerError("This Redis cluster was started without tls=True and has no certificates.")
        return self._entrances[0].certificates

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
            self._wait_for(lambda: all(map(self._settled, self.nodes)), "was not ready")
            if not self._joined:
                self._follow()
            self._joined = True
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

    def master_of(self, slot: int) -> RedisNode:
        """Return the node that holds a slot now."""
        for node in self.nodes:
            if node.running and slot in _slots_of(node):
                return node
        raise ServerError(f"No running node holds the slot {slot}.")

    def masters(self) -> list[RedisNode]:
        """Return the running nodes that hold slots."""
        return [node for node in self.nodes if node.running and _slots_of(node)]

    def slot_of(self, key: str) -> int:
        """Return the slot that a key belongs to."""
        return int(command(next(node for node in self.nodes if node.running).port, "CLUSTER", "KEYSLOT", key))

    def move_slot(self, slot: int, target: RedisNode) -> None:
        """Move a slot to another master, key by key, as redis-cli does it."""
        source = self.master_of(slot)
        names = {node: command(node.port, "CLUSTER", "MYID") for node in (source, target)}
        number = str(slot)
        command(target.port, "CLUSTER", "SETSLOT", number, "IMPORTING", names[source])
        command(source.port, "CLUSTER", "SETSLOT", number, "MIGRATING", names[target])
        while keys := command_list(source.port, "CLUSTER", "GETKEYSINSLOT", number, str(_MOVED_TOGETHER)):
            command(source.port, "MIGRATE", "127.0.0.1", str(target.port), "", "0", _MOVED_WITHIN, "KEYS", *keys)
        for node in (target, source, *(other for other in self.masters() if other not in names)):
            command(node.port, "CLUSTER", "SETSLOT", number, "NODE", names[target])

    def wait_until_replaced(self, slot: int, lost: RedisNode) -> None:
        """Wait until another node than the lost one holds a slot."""

        def replaced() -> bool:
            try:
                return self.master_of(slot) is not lost
            except (OSError, ServerError):
                return False

        self._wait_for(replaced, "has not replaced a master")

    def wait_until_whole(self) -> None:
        """Wait until every running node is content and every replica has a link to its master."""
        self._wait_for(lambda: all(_linked(node) for node in self.nodes if node.running), "is not whole")

    def wait_until_passed_on(self) -> None:
        """Wait until every replica has confirmed all that its master received, which it does once a second."""
        self._wait_for(lambda: all(_passed_on(node) for node in self.nodes if node.running), "does not pass on writes")

    def _join(self) -> None:
        masters = self.nodes[: self._masters]
        share = _SLOTS // len(masters)
        for number, node in enumerate(self.nodes):
            command(node.port, "CLUSTER", "SET-CONFIG-EPOCH", str(number + 1))
            if node in masters:
                last = _SLOTS if node is masters[-1] else (number + 1) * share
                command(node.port, "CLUSTER", "ADDSLOTS", *map(str, range(number * share, last)))
        for node in self.nodes[1:]:
            bus = str(node.port + 10_000)
            command(self.nodes[0].port, "CLUSTER", "MEET", "127.0.0.1", str(node.port), bus)

    def _follow(self) -> None:
        for number, node in enumerate(self.nodes[self._masters :]):
            master = self.nodes[number % self._masters]
            name = command(master.port, "CLUSTER", "MYID")
            self._wait_for(partial(_replicates, node, name), "has a replica without its master")
        self.wait_until_whole()

    def _wait_for(self, condition: Callable[[], bool], what: str) -> None:
        if not wait_until(condition, START_SECONDS):
            raise ServerError(
                f"The Redis cluster {what} after {START_SECONDS:.0f} seconds. "
                f"The end of its first node's log:\n{self.nodes[0].log_tail}"
            )

    def _settled(self, node: RedisNode) -> bool:
        try:
            state = command(node.port, "CLUSTER", "INFO").split("\r\n")
        except (OSError, ServerError):
            return False
        return "cluster_state:ok" in state and f"cluster_known_nodes:{len(self.nodes)}" in state


def command(port: int, *words: str) -> str:
    """Return what the Redis on a loopback port answers to one command; an error is a `ServerError`."""
    answer = _asked(port, words)
    assert isinstance(answer, str)
    return answer


def command_list(port: int, *words: str) -> list[str]:
    """Return what the Redis on a loopback port answers to a command whose answer is a list."""
    answer = _asked(port, words)
    assert isinstance(answer, list)
    return answer


def _asked(port: int, words: Sequence[str]) -> str | list[str]:
    request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=_ANSWER_SECONDS) as connection,
        connection.makefile("rb") as answer,
    ):
        connection.sendall(request.encode())
        line = answer.readline().decode().rstrip("\r\n")
        if line.startswith("-"):
            raise ServerError(f"The Redis server on port {port} refused {words[0]}: {line[1:]}")
        if not line:
            raise ConnectionError(f"The Redis server on port {port} closed the connection.")
        if line.startswith("*"):
            return [_text(answer, answer.readline().decode().rstrip("\r\n")) for _ in range(int(line[1:]))]
        return _text(answer, line)


def _text(answer: IO[bytes], line: str) -> str:
    if not line.startswith("$"):
        return line[1:]
    text = answer.read(int(line[1:])).decode()
    answer.readline()
    return text


def _replicates(node: RedisNode, master: str) -> bool:
    # A node that has not heard of its master yet refuses it.
    try:
        command(node.port, "CLUSTER", "REPLICATE", master)
    except (OSError, ServerError):
        return False
    return True


def _linked(node: RedisNode) -> bool:
    try:
        state = command(node.port, "INFO", "replication")
        content = "cluster_state:ok" in command(node.port, "CLUSTER", "INFO")
    except (OSError, ServerError):
        return False
    return content and ("role:master" in state or "master_link_status:up" in state)


def _passed_on(node: RedisNode) -> bool:
    state = command(node.port, "INFO", "replication")
    received = re.search(r"^master_repl_offset:(\d+)", state, re.MULTILINE)
    confirmed = re.findall(r"^slave\d+:.*\boffset=(\d+)", state, re.MULTILINE)
    return received is not None and all(int(offset) >= int(received[1]) for offset in confirmed)


def _slots_of(node: RedisNode) -> set[int]:
    try:
        lines = command(node.port, "CLUSTER", "NODES").splitlines()
    except OSError:
        return set()
    mine = next(line.split() for line in lines if "myself" in line)
    slots: set[int] = set()
    for word in mine[8:]:
        if not word.startswith("["):
            first, _, last = word.partition("-")
            slots.update(range(int(first), int(last or first) + 1))
    return slots if "master" in mine[2] else set()
