"""The conformance kit as a pytest class."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from memoranda_testing.case import Cases, Reopen
from memoranda_testing.cases import TOPICS, case_names
from memoranda_testing.expect import ExpectationError, SkipCase, with_sentence


def as_test(case: Any) -> Any:
    """Return the case as a pytest-asyncio test: its skips are pytest's, and it tidies up on a shared store."""

    @functools.wraps(case)
    async def test(self: Cases, store: Any, *args: Any, **kwargs: Any) -> None:
        try:
            await case(self, store, *args, **kwargs)
            if self.not_checked:
                print(self.not_checked)  # noqa: T201  # pytest keeps it with the test's report
        except SkipCase as skip:
            pytest.skip(str(skip))
        except ExpectationError as error:
            raise ExpectationError(with_sentence(str(error), case)) from error
        finally:
            if not self.exclusive:
                await store.init()
                await self.clean(store)

    return pytest.mark.asyncio(test)


class StoreConformance(*TOPICS):  # type: ignore[misc]  # the topics are a tuple, so that there is one list of them
    """Test everything that a store promises.

    Subclass it in a test module and add a fixture ``store`` that yields an open store, a new one for each case: cases
    close the store and register observers.

    - A store that declares ``persistent`` also needs a fixture ``reopen``: an async callable without arguments that
      returns a new store on the same data, open or not. The kit closes it.
    - ``exclusive = False``: the data is shared. Every case stays in a place of its own and removes what it wrote; cases
      that move the clock are skipped.
    - ``any_loop = False``: the store is bound to one event loop, for example by a pool that you gave it.
    - ``thorough = True`` lets cases that compare random histories with a model take minutes instead of seconds, and
      ``seed = 7`` draws other histories. Each prints what it did not reach. ``brief = True`` plays a part of them.

    You can add cases, but not replace or remove them: a subclass that redefines one raises TypeError. Cases of optional
    capabilities that the store does not declare are skipped, with the reason.
    """

    @pytest.fixture
    def reopen(self) -> Reopen | None:
        """Return None: a store that keeps nothing has nothing to open again."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in (name for topic in TOPICS for name in case_names(topic)):
            if getattr(cls, name, None) is not getattr(StoreConformance, name):  # A mixin may hide a case, too.
                raise TypeError(
                    f"{cls.__name__} redefines the conformance case {name}. A store passes every case or does not "
                    f"conform; give your own test another name."
                )


for _topic in TOPICS:
    for _name in case_names(_topic):
        setattr(StoreConformance, _name, as_test(getattr(_topic, _name)))

__all__ = ["StoreConformance"]
