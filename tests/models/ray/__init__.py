"""Programs on a Ray cluster."""
