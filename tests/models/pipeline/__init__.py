"""Stores whose folds and imports are known."""
