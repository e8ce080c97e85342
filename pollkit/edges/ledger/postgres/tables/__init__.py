"""The parts of the storage in PostgreSQL: the statements that read and write its tables."""
