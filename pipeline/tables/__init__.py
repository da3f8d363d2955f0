"""The tables that are made from logs."""
