"""Mistakes, planted to see whether a world notices."""
