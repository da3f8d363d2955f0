"""What must hold of a run, one pure function for each anomaly."""
