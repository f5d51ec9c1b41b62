"""Which position (LSN) in the primary's write-ahead log a replica must have replayed before a read may go there.

It must have everything that this store wrote for the users in question, and must not lag more than a given time.
Positions are numbers of bytes and only grow.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

_MOST_USERS = 10_000

Users = Iterable[str | None] | None
"""The users that a read or write concerns; None means all of them."""


class WalPositions:
    """The positions at which this store wrote, and those seen on the primary. Times are monotonic."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._newest = 0
        self._all = 0
        self._users: OrderedDict[str | None, int] = OrderedDict()
        self._seen: deque[tuple[float, int]] = deque()
        # Counts of writes whose positions are unknown: the last number, of all users, and of single users.
        self._lost = 0
        self._lost_all = 0
        self._lost_users: dict[str | None, int] = {}

    def begin(self) -> int:
        """Return a number to pass to :meth:`observed`; take it before asking the primary."""
        return self._lost

    def observed(self, begun: int, position: int, now: float) -> None:
        """Record the position of the primary; it covers writes whose own position was lost before it was asked for."""
        self._newest = max(self._newest, position)
        if 0 < self._lost_all <= begun:
            self._lost_all, self._all = 0, self._newest
        for user in [user for user, number in self._lost_users.items() if number <= begun]:
            del self._lost_users[user]
            self.wrote([user])
        # Ten samples within the lag are enough.
        if not self._seen or now - self._seen[-1][0] >= self._lag / 10:
            self._seen.append((now, self._newest))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self._lag:
            self._seen.popleft()

    def wrote(self, users: Users) -> None:
        """Record a write that ended before the primary was last observed."""
        if users is None:
            self._all = self._newest
            return
        for user in users:
            self._users[user] = self._newest
            self._users.move_to_end(user)
        while len(self._users) > _MOST_USERS:
            _, left = self._users.popitem(last=False)
            self._all = max(self._all, left)

    def lost(self, users: Users) -> None:
        """Record a write that may have been done at an unknown position."""
        self._lost += 1
        if users is None or len(self._lost_users) > _MOST_USERS:
            self._lost_all = self._lost
        else:
            self._lost_users.update(dict.fromkeys(users, self._lost))

    def needed(self, users: Users) -> int | None:
        """Return the position that a replica needs for these users; None if only the primary will do."""
        if self._lost_all or not self._seen:
            return None
        if users is None:
            return None if self._lost_users else self._newest_written()
        asked = list(users)
        if any(user in self._lost_users for user in asked):
            return None
        return max(self._all, self._seen[0][1], *(self._users.get(user, 0) for user in asked), 0)

    def _newest_written(self) -> int:
        # The last in order is the last that was written.
        last = next(reversed(self._users.values()), 0)
        return max(self._all, self._seen[0][1], last)
