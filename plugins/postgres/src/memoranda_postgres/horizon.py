"""How far a replica must have come before a read may go there, as positions in the primary's log of changes (LSN).

Two things are asked of it: that it has whatever this store wrote for the user whose items are read, and that it is not
further behind than a given time. Positions are whole numbers of bytes and only grow.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable

_MOST_USERS = 10_000

Users = Iterable[str | None] | None
"""The users that a write is about; None stands for all of them."""


class Horizon:
    """What this store has written and seen of the primary. Times are those of a clock that only goes forward."""

    def __init__(self, lag: float) -> None:
        self._lag = lag
        self._newest = 0
        self._all = 0
        self._users: OrderedDict[str | None, int] = OrderedDict()
        self._seen: deque[tuple[float, int]] = deque()
        # Writes whose positions are not known, with their numbers; the key None of the first stands for all users.
        self._lost = 0
        self._lost_all = 0
        self._lost_users: dict[str | None, int] = {}

    def begin(self) -> int:
        """Return what is to be given to :meth:`observed` by whoever asks the primary from now on."""
        return self._lost

    def observed(self, begun: int, position: int, now: float) -> None:
        """Note the position of the primary; it covers the writes whose own was lost before it was asked for."""
        self._newest = max(self._newest, position)
        if 0 < self._lost_all <= begun:
            self._lost_all, self._all = 0, self._newest
        for user in [user for user, number in self._lost_users.items() if number <= begun]:
            del self._lost_users[user]
            self.wrote([user])
        # One in each tenth of the lag is enough to know what was there so long ago.
        if not self._seen or now - self._seen[-1][0] >= self._lag / 10:
            self._seen.append((now, self._newest))
        while len(self._seen) > 1 and self._seen[1][0] <= now - self._lag:
            self._seen.popleft()

    def wrote(self, users: Users) -> None:
        """Note a write that ended before the primary was last observed."""
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
        """Note a write that may have been done at a position that nobody knows."""
        self._lost += 1
        if users is None or len(self._lost_users) > _MOST_USERS:
            self._lost_all = self._lost
        else:
            self._lost_users.update(dict.fromkeys(users, self._lost))

    def needed(self, users: Users) -> int | None:
        """Return the position from which on a replica will do for these users; None if only the primary will."""
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
