"""A layout with a manifest for each segment."""
