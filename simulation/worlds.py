"""The names of the worlds that seeds are run in."""

from __future__ import annotations

SERVICE = "service"
"""The whole service under virtual time, with faults."""
LIVES = "lives"
"""Clusters that live for years in that world, and move between managers."""
WORLDS = (SERVICE, LIVES)

GONE = "machines"
"""A world of doubles that is gone (docs/adr/0087-one-world.md)."""
