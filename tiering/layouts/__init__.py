"""Layouts: how the objects of a segment are named and stored in a tier."""
