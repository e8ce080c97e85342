"""The ledger: a durable list of jobs, and the storage that keeps it."""
