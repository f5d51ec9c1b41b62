"""To whom a space is granted: a user, an agent, an agent of one user, or a group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from memoranda.errors import InputError, quoted
from memoranda.items import MemoryMetadata
from memoranda.store.checks import check_key
from memoranda.store.spaces import check_name, check_user

Kind = Literal["user", "agent", "group"]


@dataclass(frozen=True, slots=True)
class Grantee:
    """Somebody that a space can be granted to. Made by :func:`user`, :func:`agent` and :func:`group`.

    ``agent`` is set for an agent of one user: the grant holds for that user's handles of this agent alone.
    """

    kind: Kind
    name: str
    agent: str | None = None

    def __str__(self) -> str:
        return self.key if self.agent is None else f"{self.key} with agent:{self.agent}"

    @property
    def key(self) -> str:
        """The text that grants of this one are found by."""
        return f"{self.kind}:{self.name}"


def user(user_id: str) -> Grantee:
    """Return a user: all handles that are bound to the user, whatever their agent."""
    check_key(user_id, "user")
    check_user(user_id, "user")
    return Grantee("user", user_id)


def agent(agent_id: str, *, of: str | None = None) -> Grantee:
    """Return an agent of one user, or with ``of=None`` that of all users.

    Ids of agents are often general, such as ``"planner"``: without ``of``, every user's planner is meant.
    """
    check_key(agent_id, "agent")
    return Grantee("agent", agent_id) if of is None else Grantee("user", user(of).name, agent_id)


def group(name: str) -> Grantee:
    """Return a group: all of its members, see :meth:`memoranda_spaces.Grants.join`."""
    return Grantee("group", check_name(name, "group"))


def checked(to: Grantee | str, field: str = "to") -> Grantee:
    """Return whom a text such as ``"user:ada"`` or ``"group:support"`` names. Raises InputError if it names nobody."""
    if isinstance(to, Grantee):
        return to
    kind, colon, name = to.partition(":") if isinstance(to, str) else ("", "", "")
    makers: dict[str, Callable[[str], Grantee]] = {"user": user, "agent": agent, "group": group}
    if not colon or not name or kind not in makers:
        raise InputError(
            f"{field} names nobody: {quoted(to, text=True)}. Write user('ada'), agent('planner', of='ada') or "
            f"group('support'), or 'user:ada', 'agent:planner' or 'group:support'.",
            field=field,
        )
    return makers[kind](name)


def grantees_of(scope: MemoryMetadata) -> list[Grantee]:
    """Return as whom a handle of a scope is granted something, its groups apart."""
    found = []
    if scope.user_id is not None:
        found.append(Grantee("user", scope.user_id))
        if scope.agent_id is not None:
            found.append(Grantee("user", scope.user_id, scope.agent_id))
    if scope.agent_id is not None:
        found.append(Grantee("agent", scope.agent_id))
    return found


def identity(scope: MemoryMetadata) -> str:
    """Return the one name of whoever uses a handle of a scope: its user, or else its agent."""
    if scope.user_id is None and scope.agent_id is None:
        raise InputError(
            "Spaces are granted to users and agents: bind the handle to one, as in store.scoped(user_id=…).",
            field="scope",
        )
    return f"agent:{scope.agent_id}" if scope.user_id is None else f"user:{scope.user_id}"
