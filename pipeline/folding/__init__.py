"""Folding of logs by tasks."""
