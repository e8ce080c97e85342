"""Files with the results of jobs."""
