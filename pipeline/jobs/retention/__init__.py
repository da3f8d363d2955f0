"""Simulation: what another retention would delete."""
