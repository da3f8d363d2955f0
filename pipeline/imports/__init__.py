"""Kafka's metadata topic, imported."""
