"""Connections in several event loops: one value for each loop, ended with it."""

from __future__ import annotations

from memoranda_loops.per_loop import PerLoop, hang_up, run_in

__all__ = ["PerLoop", "hang_up", "run_in"]
