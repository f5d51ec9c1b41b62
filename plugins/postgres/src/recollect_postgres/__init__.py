"""Recollect's PostgreSQL store, on asyncpg."""
