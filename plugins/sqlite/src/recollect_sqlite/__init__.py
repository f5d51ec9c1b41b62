"""Recollect's SQLite store: durable, indexed, one file."""
