"""The ledger: a durable list of jobs in one SQLite file."""
