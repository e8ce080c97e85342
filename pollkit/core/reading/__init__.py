"""From a reply to a verdict: done, failed, pending, or a fault. The flow is in `reader`."""
