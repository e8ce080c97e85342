"""Submitting a job exactly once: the state machine, the request, and the meaning of replies."""
