"""What might happen at the end of a run, asked of rules and tables, and of slow ones."""
