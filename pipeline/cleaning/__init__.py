"""What is dead weight in the tier and in the logs, with the evidence for it."""
