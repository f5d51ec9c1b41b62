"""Test classes for adapters of frameworks: what a stranger stored is neither obeyed nor taken for a record."""
