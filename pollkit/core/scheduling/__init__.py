"""Many waits at once: which job is polled next, in a queue per limit and origin."""
