"""Rate limits as arithmetic: the bucket, and overload that looks like a limit."""
