"""Recollect's Redis store: episodic memory with a time to live."""
