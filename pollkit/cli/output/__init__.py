"""What commands print: outcomes, job lists and tables."""
