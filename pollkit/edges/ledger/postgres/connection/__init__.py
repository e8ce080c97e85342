"""How a ledger connects to PostgreSQL: URL, drivers, transactions, and repeated attempts."""
