"""Recollect's summary template that extracts facts with their sources."""
