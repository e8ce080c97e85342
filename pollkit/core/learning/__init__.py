"""Learning when jobs finish: from past durations and from reported progress."""
