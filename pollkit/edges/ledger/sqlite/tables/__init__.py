"""The parts of the storage in SQLite: the statements that read and write its tables."""
