"""Settings that the core's tests share."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes single examples slow, which says nothing about the code.
settings.register_profile("memoranda", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("memoranda")
