"""Engine: polls many jobs at once, with one thread for all exchanges."""
