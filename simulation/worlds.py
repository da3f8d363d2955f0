"""The names of the worlds that seeds are run in."""

from __future__ import annotations

MACHINES = "machines"
"""The world of the state machines alone, on a clockwork."""
SERVICE = "service"
"""The whole service under virtual time, with faults."""
LIVES = "lives"
"""Clusters that live for years in that world, and move between managers."""
WORLDS = (MACHINES, SERVICE, LIVES)
