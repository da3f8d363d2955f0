"""Recorded and made-up runs, and searches for planted mistakes."""
