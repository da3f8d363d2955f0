"""The names of the worlds that seeds are run in."""

from __future__ import annotations

MACHINES = "machines"
"""The world of the state machines alone, on a clockwork."""
SERVICE = "service"
"""The world of the whole service, on a virtual loop."""
WORLDS = (MACHINES, SERVICE)
