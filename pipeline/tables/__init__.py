"""The tables that logs become."""
