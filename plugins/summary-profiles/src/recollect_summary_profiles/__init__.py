"""Recollect's summary template that builds user profiles with their sources."""
