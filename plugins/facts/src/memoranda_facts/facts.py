"""The face of this package."""

from __future__ import annotations

from memoranda_facts.changes import Changes


class Facts(Changes):
    """What is known of one user, since when, from whom, and how it came to be known.

    ``store`` is a handle such as ``store.scoped(user_id="ada")``. The facts belong to its user and agent, whatever its
    session and task. ``schema`` says how many values a predicate has at a time, and which names mean the same.

    Every change returns a :class:`Receipt`, which :meth:`undo` takes. Any number of objects, in any number of
    processes, may change the facts of one user at the same time; none of their changes is lost.
    """
