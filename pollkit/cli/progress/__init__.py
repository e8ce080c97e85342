"""Progress on stderr: a live display on a terminal, a log otherwise."""
