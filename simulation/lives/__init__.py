"""Clusters that live for years in the service's world, and move between managers."""
