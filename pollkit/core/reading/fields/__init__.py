"""The fields of a decoded reply: its status, result, error, progress and times."""
