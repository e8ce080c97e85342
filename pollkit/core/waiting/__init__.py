"""One job's wait: its state, the transitions, and when to poll next."""
