"""The parser of the command line, and the flags that several commands share."""
