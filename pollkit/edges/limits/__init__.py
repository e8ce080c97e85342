"""Rate limits that threads and processes share."""
