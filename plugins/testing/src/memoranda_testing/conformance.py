"""The conformance kit as a pytest class; needs the extra ``testing``."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from memoranda_testing.case import Cases, Reopen
from memoranda_testing.cases import TOPICS, case_names
from memoranda_testing.expect import SkipCase


def _as_test(case: Any) -> Any:
    """Return the case as a pytest-asyncio test: its skips are pytest's, and it tidies up on a shared store."""

    @functools.wraps(case)
    async def test(self: Cases, store: Any, *args: Any, **kwargs: Any) -> None:
        try:
            await case(self, store, *args, **kwargs)
            if self.not_reached:
                print(self.not_reached)  # noqa: T201  # pytest keeps it with the test's report
        except SkipCase as skip:
            pytest.skip(str(skip))
        finally:
            if not self.exclusive:
                await store.init()
                await self.clean(store)

    return pytest.mark.asyncio(test)


class StoreConformance(*TOPICS):  # type: ignore[misc]  # the topics are a tuple, so that there is one list of them
    """What every store must do. Subclass it in a test module and offer a fixture ``store`` that yields an open store.

    Cases close the store and register observers, so each needs one of its own; what it keeps may be shared, see below.

    A store that declares ``persistent`` also needs a fixture ``reopen``: an async callable without arguments that
    returns a new store on the same data, open or not; the kit closes it. Set ``exclusive = False`` if the store is
    shared: cases that look at all of it are then skipped, and every case removes what it wrote. Set
    ``any_loop = False`` if it is made on something that belongs to one event loop, such as a pool that you gave it.

    Cases that compare random histories with a model take seconds. ``thorough = True`` lets them take minutes, and
    ``seed = 7`` lets them draw others; each prints what it did not reach.

    Cases can be added, but not replaced or taken out: a subclass that redefines one is refused with a TypeError.
    Cases of optional capabilities that the store does not declare are skipped, with the reason.
    """

    @pytest.fixture
    def reopen(self) -> Reopen | None:
        """Return None: a store that keeps nothing has nothing to open again."""
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in _CASE_NAMES:
            if getattr(cls, name, None) is not getattr(StoreConformance, name):  # A mixin may hide a case, too.
                raise TypeError(
                    f"{cls.__name__} redefines the conformance case {name}. A store passes every case or does not "
                    f"conform; give your own test another name."
                )


_CASE_NAMES = tuple(name for topic in TOPICS for name in case_names(topic))

for _topic in TOPICS:
    for _name in case_names(_topic):
        setattr(StoreConformance, _name, _as_test(getattr(_topic, _name)))

__all__ = ["StoreConformance"]
