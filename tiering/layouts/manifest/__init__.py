"""The three-object layout, with a manifest for each segment."""
