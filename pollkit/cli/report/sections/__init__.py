"""The sections of a report, one module each: from its data to HTML."""
