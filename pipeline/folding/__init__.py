"""Logs, folded by tasks."""
