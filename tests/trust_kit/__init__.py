"""The kit for trust: planted memories never leave their fence and never gain trust, on any store.

A test module subclasses :class:`TrustConformance` and offers an open store, as for ``StoreConformance``. To test a
fence, a guard or a compaction, override ``make_fence``, ``make_guard``, ``make_facts``, ``compact`` or ``move``.
"""

from memoranda_testing.cases import case_names
from memoranda_testing.conformance import as_test
from trust_kit.cases import TrustCases


class TrustConformance(TrustCases):
    """Test that planted memories are held, on the store of a fixture ``store``."""


for _name in case_names(TrustCases):
    setattr(TrustConformance, _name, as_test(getattr(TrustCases, _name)))

__all__ = ["TrustCases", "TrustConformance"]
