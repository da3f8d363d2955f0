"""The tier's objects, compared with the logs."""
