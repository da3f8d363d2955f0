"""Worlds of the state machines alone, which `simulate run` tries by the thousand."""
