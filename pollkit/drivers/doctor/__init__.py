"""The doctor: examines each step of the way to a job."""
