"""The commands about pollkit itself: its documentation, a demo, completion, unpacking."""
