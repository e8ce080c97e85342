"""What `pollkit run` consists of: checks of its files, notifications, the work of a process."""
