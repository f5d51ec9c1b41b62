"""Write policies, quarantine and fences: what was planted does not get to speak for the user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memoranda.lazy import lazy_names

if TYPE_CHECKING:
    from memoranda_guard.fence import Fence
    from memoranda_guard.guard import Guard, RefusedError
    from memoranda_guard.policy import Outcome, Policy, Rule, load_policy
    from memoranda_guard.quarantine import NotQuarantinedError, QuarantinedMemory, approve, quarantined, reject
    from memoranda_guard.redactor import Redactor

__all__ = [
    "Fence",
    "Guard",
    "NotQuarantinedError",
    "Outcome",
    "Policy",
    "QuarantinedMemory",
    "Redactor",
    "RefusedError",
    "Rule",
    "approve",
    "load_policy",
    "quarantined",
    "reject",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "fence": ["Fence"],
        "guard": ["Guard", "RefusedError"],
        "policy": ["Outcome", "Policy", "Rule", "load_policy"],
        "quarantine": ["NotQuarantinedError", "QuarantinedMemory", "approve", "quarantined", "reject"],
        "redactor": ["Redactor"],
    },
)
