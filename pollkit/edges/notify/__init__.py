"""How notifications are delivered: to a program, or to a file."""
