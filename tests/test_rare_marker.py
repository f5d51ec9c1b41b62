"""The markers `rare` and `slow`: what stays of what few people have or takes long, and that nothing goes in silence."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SUITE = """
import pytest

@pytest.mark.rare
class TestPartitioned:
    @pytest.mark.parametrize("number", range(40))
    def test_case(self, number): pass

@pytest.mark.rare("servers", one_in=1000)
class TestServers:
    @pytest.mark.parametrize("number", range(40))
    def test_case(self, number): pass

@pytest.mark.rare
class TestOldRelease:
    def test_one(self): pass
    def test_two(self): pass

@pytest.mark.slow
def test_many_seconds(): pass

class Kit:
    def test_sizes_match_the_model(self): pass
    def test_case(self): pass

class TestMainStore(Kit): pass

@pytest.mark.rare
class TestRareStore(Kit): pass

@pytest.fixture(params=["alone", pytest.param("cluster", marks=pytest.mark.rare("cluster")),
                        pytest.param("tls", marks=pytest.mark.rare("tls"))])
def url(request):
    return request.param

@pytest.mark.parametrize("number", range(3))
def test_url(url, number): pass
"""
TESTS = 40 + 40 + 2 + 1 + 2 * 2 + 3 * 3


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A suite of its own with this repository's conftest and no other plugin."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeconftest(CONFTEST.read_text())
    pytester.makeini("[pytest]\nmarkers = rare\n    slow\n")
    pytester.makepyfile(test_suite=SUITE)
    return pytester


def kept(suite: pytest.Pytester, *arguments: str) -> list[str]:
    """Return the ids of the tests that run."""
    listed = suite.runpytest_inprocess("--collect-only", "-q", "-p", "no:cacheprovider", *arguments)
    return [line for line in listed.outlines if line.startswith("test_suite.py::")]


def test_a_small_sample_of_every_rare_set_up_runs(suite: pytest.Pytester) -> None:
    sample = kept(suite)

    assert 1 <= sum("TestPartitioned" in name for name in sample) <= 15
    assert sum("TestServers" in name for name in sample) == 1
    assert any("TestOldRelease" in name for name in sample)
    assert any("cluster" in name for name in sample)
    assert any("tls" in name for name in sample)
    assert sum("[alone" in name for name in sample) == 3


def test_what_is_slow_is_left_out(suite: pytest.Pytester) -> None:
    assert not any("test_many_seconds" in name for name in (*kept(suite), *kept(suite, "--sample")))


def test_a_long_case_of_the_kit_runs_in_the_main_set_up_alone(suite: pytest.Pytester) -> None:
    sample = [name.split("::", 1)[1] for name in kept(suite) if "Store" in name]

    assert sample == [
        "TestMainStore::test_sizes_match_the_model",
        "TestMainStore::test_case",
        "TestRareStore::test_case",
    ]


def test_the_sample_is_always_the_same(suite: pytest.Pytester) -> None:
    assert kept(suite) == kept(suite)


def test_everything_runs_on_request(suite: pytest.Pytester) -> None:
    assert len(kept(suite, "--everything")) == TESTS


def test_a_sample_can_be_taken_of_all_tests(suite: pytest.Pytester) -> None:
    sample = kept(suite, "--sample")

    assert set(sample) <= set(kept(suite))
    assert any("[alone" in name for name in sample)


@pytest.mark.parametrize(
    "wanted",
    [
        "test_suite.py::TestOldRelease::test_one",
        "test_suite.py::TestOldRelease::test_two",
        "test_suite.py::TestRareStore::test_sizes_match_the_model",
        "test_suite.py::test_many_seconds",
    ],
)
def test_a_test_that_is_asked_for_by_name_runs(suite: pytest.Pytester, wanted: str) -> None:
    assert kept(suite, wanted) == [wanted]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_what_was_left_out_is_counted(suite: pytest.Pytester, workers: str) -> None:
    sample = len(kept(suite))

    done = suite.runpytest_subprocess("-p", "xdist", "-n", workers, "--junitxml=reports.xml", "-p", "no:cacheprovider")

    done.assert_outcomes(passed=sample, deselected=TESTS - sample)
    assert (suite.path / "reports.deselected").read_text() == f"{TESTS - sample}\n"
