"""The storage of a ledger in one SQLite file."""
