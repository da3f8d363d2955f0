"""The tier held against the logs."""
