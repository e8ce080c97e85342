"""The report: one HTML page about a ledger, a file of outcomes or a simulation."""
