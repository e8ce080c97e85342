"""The storage of a ledger in a PostgreSQL database, for several hosts."""
