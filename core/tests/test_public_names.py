"""What ``import memoranda`` offers: modules are there without being imported by name, and ``dir()`` tells the truth."""

from __future__ import annotations

import subprocess
import sys

import pytest

import memoranda
from memoranda.lazy import lazy_names


def in_a_new_process(code: str) -> str:
    """Run a program that has imported nothing yet, and return what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.rare("modules")
@pytest.mark.parametrize("module", ["tokens", "store", "sync", "windowing", "errors"])
def test_a_public_module_is_there_as_soon_as_the_package_is(module: str) -> None:
    assert in_a_new_process(f"import memoranda; print(memoranda.{module}.__name__)") == f"memoranda.{module}\n"


def test_dir_shows_what_is_public_and_nothing_else() -> None:
    shown = in_a_new_process("import memoranda; print(*dir(memoranda))").split()

    assert {"open", "windowing", "MemoryItem", "__version__"} <= set(shown)
    assert [name for name in shown if name.startswith("_")] == ["__version__"]
    assert not {"annotations", "TYPE_CHECKING", "lazy_names"} & set(shown)


def test_whatever_dir_shows_is_there() -> None:
    assert all(hasattr(memoranda, name) for name in dir(memoranda))


def test_a_name_that_is_not_public_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        memoranda.no_such_name  # noqa: B018 - the access is the test


@pytest.mark.parametrize(
    ("name", "distribution"),
    [("compact", "memoranda-summary"), ("ContextManager", "memoranda-context"), ("messages", "memoranda-messages")],
)
def test_a_name_of_another_distribution_says_where_to_find_it(name: str, distribution: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(memoranda, name)

    assert distribution.replace("-", "_") in str(caught.value)
    assert f"pip install 'memoranda[{distribution.removeprefix('memoranda-')}]'" in str(caught.value)


def test_a_name_that_needs_an_extra_says_what_to_install() -> None:
    get_name, _ = lazy_names("memoranda", {"no_such_package.part": ["Part"]}, extras={"no_such_package": "some[extra]"})

    with pytest.raises(ModuleNotFoundError, match=r"^Part needs no_such_package, .* Try: pip install 'some\[extra\]'$"):
        get_name("Part")


def test_what_is_missing_for_another_reason_stays_its_own_error() -> None:
    get_name, _ = lazy_names("memoranda", {"no_such_package.part": ["Part"]}, extras={"no_such": "some[extra]"})

    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'no_such_package'$"):
        get_name("Part")
