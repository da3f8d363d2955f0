"""Reading of records from the tier."""
