"""Stores with prepared content, or with faults."""
