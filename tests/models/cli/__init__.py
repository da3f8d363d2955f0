"""The command line, run as by a user."""
