"""What is read: one value for every reading call, which layers narrow on its way to the engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, Literal, NamedTuple, TypeVar

from memoranda.items import MemoryItem, MemoryMetadata, Payload
from memoranda.store.conditions import Condition
from memoranda.store.filters import Filter, Page
from memoranda.store.protocol import SearchMode
from memoranda.store.ranked import RankedItem
from memoranda.store.spaces import Reach

T = TypeVar("T")

Form = Literal["items", "payloads", "places", "ranked"]
"""What a query gives: items, their payloads, their places in the order of adding, or items with their scores."""

EVERY_ITEM = Filter(archived=None)
FIRST_PAGE = Page()
AS_ADDED = Page(order="added")


class Ranking(NamedTuple):
    """How items are to be ranked: the question, and by what means."""

    text: str
    mode: SearchMode


class Query(NamedTuple, Generic[T]):
    """What a read asks for: the items that match, or those of some ids, a page of them, newest or best first.

    With ``ids`` the items come in any order, whatever the filter; those that are not there are left out. ``deleted``
    includes deleted items where the read allows that. ``shared`` says that nobody will change what is read: an engine
    may give items that it keeps for itself. The type says what the read returns: see :data:`Form`. ``reach`` says
    whether spaces that were granted to a handle are meant, too; what is about one conversation never means them.
    ``beside`` are further scopes for a ranking, each ranked by itself: the best of all come back, as
    :func:`memoranda.store.ranked.best_of_all` puts them together. Only an engine that ``ranks_together`` is given them.
    """

    wanted: Filter = EVERY_ITEM
    page: Page = FIRST_PAGE
    ids: Sequence[str] | None = None
    deleted: bool = False
    ranking: Ranking | None = None
    form: Form = "items"
    reach: Reach = "own"
    shared: bool = False
    beside: tuple[Filter, ...] = ()

    def narrowed(self, scope: MemoryMetadata) -> Query[T]:
        """Return this query within a scope. Raises InputError when the two contradict each other."""
        wanted = self.wanted.narrowed(scope)
        return self if wanted is self.wanted else self._replace(wanted=wanted)

    def also(self, *conditions: Condition) -> Query[T]:
        """Return this query with further conditions."""
        return self._replace(wanted=self.wanted.also(*conditions))


def items_where(
    wanted: Filter, page: Page = FIRST_PAGE, *, deleted: bool = False, reach: Reach = "own", shared: bool = False
) -> Query[MemoryItem]:
    """Return the query of a page of the items that match."""
    return Query(wanted, page, None, deleted, reach=reach, shared=shared)


def items_of_ids(ids: Sequence[str], reach: Reach = "own") -> Query[MemoryItem]:
    """Return the query of the items that are shown under these ids."""
    return Query(EVERY_ITEM, FIRST_PAGE, ids, reach=reach)


def payloads_where(wanted: Filter, page: Page) -> Query[Payload]:
    """Return the query of the payloads of a page of the items that match."""
    return Query(wanted, page, form="payloads")


def best_of(text: str, wanted: Filter, limit: int, mode: SearchMode, *, shared: bool = False) -> Query[RankedItem]:
    """Return the query of the items that match and answer a question best, wherever the handle may look."""
    return Query(wanted, Page(limit), ranking=Ranking(text, mode), form="ranked", reach="granted", shared=shared)


def place_of(item_id: str) -> Query[int]:
    """Return the query of the place of an item, deleted or not, in the order of adding; nothing if there is none.

    A place is above 0, stays the same as long as the engine lasts, and is below those of all items that come later.
    """
    return Query(EVERY_ITEM, FIRST_PAGE, (item_id,), True, form="places")
