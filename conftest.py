"""What every suite of this repository shares: settings of hypothesis, the markers `rare` and `slow`, no proxy,
and Debian's servers where no other runs.

Of what is rare a stable sample runs by default, and nothing of what is slow; all of both with `--everything`, which
also lets hypothesis try a hundred examples, new ones each time, instead of the same sixteen, and the kit play all
of its random histories instead of a fifth.

A set-up that few people have (partitions, a cluster, an old server) runs the same cases as the main one. To run all of
them each time costs most of the time and finds next to nothing, so a test, a class or a parameter is marked::

    @pytest.mark.rare
    class TestPartitionedTable(OnEveryServer): ...

    @pytest.fixture(params=["standalone", pytest.param("cluster", marks=pytest.mark.rare("cluster"))])

One test in sixty-four of what is marked stays (or another part: ``rare("cluster", one_in=100)``), always the same ones,
and at least one of every set-up in every distribution. A set-up is what the marker names; markers without a name in one
class (or module, outside of classes) are one set-up.

What stands on the contract of stores is tested on a store in memory, on a file and on PostgreSQL, and one test in eight
on the other stores: that these keep the contract is what the kit asks of each of them in full.

What takes many seconds on every machine and has quicker neighbours that would see the same fault is marked `slow`. It
stays out, and so do the longest cases of the kit in a rare set-up or on a server.

What was left out counts as deselected in the last line. `--sample` takes all tests as rare, and `--sample=8` keeps
one in so many.

It lies here and not in the kit: who installs the kit to test a store of their own gets no option that they did not ask
for.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes single examples slow, and chance draws many that do not fit: that says nothing about the code.
UNSAID = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
# The default run says the same of the same code each time; new examples are looked for with `--everything`.
EVERYTHING = settings(deadline=None, suppress_health_check=UNSAID, max_examples=100, derandomize=False)
settings.register_profile("everything", EVERYTHING)
settings.register_profile("memoranda", EVERYTHING, max_examples=16, derandomize=True, database=None)

ONE_IN = 64
FURTHER_STORES = frozenset({"redis", "vector", "encrypted", "hidden owners", "revisions"})
"""Parameters that name stores on which a sample of what is no backend's own test runs."""
ONE_IN_FURTHER_STORES = 8
SLOW_CASES = frozenset(
    {
        *("test_sizes_match_the_model", "test_twenty_megabytes_round_trip", "test_random_histories_outlive_the_store"),
        *("test_a_large_scope_is_ranked_as_in_memory", "test_a_call_that_is_cancelled_at_any_await_is_done_or_not"),
        *("test_a_loop_closed_with_calls_under_way_does_no_harm", "test_random_forks_show_what_lists_would"),
        "test_a_read_under_way_shows_nothing_of_others",
    }
)
"""Cases of the conformance kit that take seconds, and run in the main set-up of every store."""
SLOW_ON_SERVERS = frozenset(
    {
        *("test_sizes_match_the_model", "test_every_two_filters_hold_together"),
        *("test_a_large_scope_is_ranked_as_in_memory", "test_twenty_megabytes_round_trip"),
        *("test_a_call_that_is_cancelled_at_any_await_is_done_or_not", "test_owners_that_look_alike_are_apart"),
        *("test_a_branch_reads_like_a_session_that_holds_all_of_it", "test_long_queries_are_found"),
        "test_a_read_under_way_shows_nothing_of_others",
    }
)
"""Cases that take many seconds on a server. By default they run on stores in memory and in files."""
SERVER_SUITES = tuple(f"plugins/backends/{name}/tests/" for name in ("postgres", "redis"))
SLOWEST = 3600
"""Seconds after which a test hangs where nothing is left out: on a cluster that moves its slots, one takes eight
minutes."""
LEFT_OUT = "memoranda_left_out"
IN_USE = pytest.StashKey[dict[str, list[str]]]()
SERVERS = "memoranda_servers"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options."""
    parser.addoption("--everything", action="store_true", help="run all tests that are marked rare or slow")
    parser.addoption(
        "--sample",
        type=int,
        nargs="?",
        const=ONE_IN,
        metavar="N",
        help=f"run one in N ({ONE_IN}) of all tests, as if all were marked rare",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples hypothesis tries, before the modules are imported that may ask for a multiple of it."""
    settings.load_profile("everything" if config.getoption("everything") else "memoranda")
    _pass_by_proxies()
    if find_spec("memoranda_testing") is not None and find_spec("servers") is not None:
        from memoranda_testing.case import Cases
        from servers import add_debian_fallbacks

        Cases.brief = not config.getoption("everything")
        add_debian_fallbacks()


def _pass_by_proxies() -> None:
    """Let no proxy that a machine needs on its way out stand before the servers that tests start on it."""
    there = os.environ.get("no_proxy") or os.environ.get("NO_PROXY") or ""
    if there.strip() != "*" and "127.0.0.1" not in there:
        os.environ["no_proxy"] = os.environ["NO_PROXY"] = ",".join(filter(None, [there, "127.0.0.1", "localhost"]))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what is slow, or rare and not in the sample; last, so that tests asked for by name stay."""
    if config.getoption("everything"):
        for item in items:  # With all examples, on a busy machine, any of them may take minutes.
            item.add_marker(pytest.mark.timeout(SLOWEST))
        return
    sample_all = config.getoption("sample")
    for item in items:
        _sample_further_stores(item)
    rare = [item for item in items if sample_all or item.get_closest_marker("rare")]
    out = {item.nodeid for item in items if item.get_closest_marker("slow")}
    out |= {item.nodeid for item in rare if getattr(item, "originalname", None) in SLOW_CASES}
    on_servers = [item for item in items if item.nodeid.startswith(SERVER_SUITES)]
    out |= {item.nodeid for item in on_servers if getattr(item, "originalname", None) in SLOW_ON_SERVERS}
    if len(out) == len(items):
        return
    out |= left_out([item for item in rare if item.nodeid not in out], sample_all or 1)
    if out:
        _tell(config, [item for item in items if item.nodeid in out])
        items[:] = [item for item in items if item.nodeid not in out]


def _sample_further_stores(item: pytest.Item) -> None:
    """Mark a test on a store that is not one of the main ones as rare, unless it is a backend's own."""
    call = getattr(item, "callspec", None)
    if call is None or item.nodeid.startswith("plugins/backends/"):
        return
    for value in call.params.values():
        if isinstance(value, str) and value in FURTHER_STORES:
            item.add_marker(pytest.mark.rare(f"on {value}", one_in=ONE_IN_FURTHER_STORES))


def left_out(rare: Sequence[pytest.Item], one_in: int) -> set[str]:
    """Return the ids of the tests that are not in the sample: one in as many as the markers say, or in more."""
    setups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for item in rare:
        for setup in _setups(item):
            setups[setup].append(item.nodeid)
    sample = {item.nodeid for item in rare if _number(item.nodeid) % max(one_in, _own_one_in(item)) == 0}
    for members in setups.values():
        if sample.isdisjoint(members):
            sample.add(min(members, key=_number))
    return {item.nodeid for item in rare} - sample


def _setups(item: pytest.Item) -> Iterator[tuple[str, ...]]:
    distribution = item.nodeid.partition("::")[0].rpartition("tests/")[0]
    names = [marker.args for marker in item.iter_markers("rare")]
    for name in names or [()]:
        yield (distribution, *map(str, name)) if name else (item.parent.nodeid if item.parent is not None else "",)


def _own_one_in(item: pytest.Item) -> int:
    return max((int(marker.kwargs.get("one_in", ONE_IN)) for marker in item.iter_markers("rare")), default=1)


def _number(nodeid: str) -> int:
    return zlib.crc32(nodeid.encode())


def _tell(config: pytest.Config, out: list[pytest.Item]) -> None:
    """Count what was left out, in this process or, in a worker of pytest-xdist, for the process that reports."""
    output = getattr(config, "workeroutput", None)
    if output is not None:
        output[LEFT_OUT] = [item.nodeid for item in out]
    else:
        config.hook.pytest_deselected(items=out)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Note which programs the servers ran, in a worker of pytest-xdist for the process that reports."""
    servers = sys.modules.get("servers")
    output = getattr(session.config, "workeroutput", session.config.stash.setdefault(IN_USE, {}))
    output[SERVERS] = [*output.get(SERVERS, []), *(servers.programs_in_use() if servers is not None else [])]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """Count what the workers left out; each of them leaves out the same, so one is enough."""
    reporter = node.config.pluginmanager.get_plugin("terminalreporter")
    output = getattr(node, "workeroutput", {})
    node.config.stash.setdefault(IN_USE, {}).setdefault(SERVERS, []).extend(output.get(SERVERS, []))
    out = output.get(LEFT_OUT)
    if out and reporter is not None and not reporter.stats.get("deselected"):
        node.config.hook.pytest_deselected(items=[SimpleNamespace(nodeid=nodeid) for nodeid in out])


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Say which servers ran. Leave the number of what was left out beside JUnit's report for `.ci/run` to add up."""
    for program in sorted(set(config.stash.get(IN_USE, {}).get(SERVERS, []))):
        terminalreporter.write_line(f"server for the tests: {program}")
    report = config.getoption("xmlpath", None)
    if report:
        Path(report).with_suffix(".deselected").write_text(f"{len(terminalreporter.stats.get('deselected', []))}\n")
