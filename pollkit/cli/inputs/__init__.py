"""The files that commands read: lists of jobs, of durations and of outcomes."""
