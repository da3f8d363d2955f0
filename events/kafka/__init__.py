"""Kafka's wire format of remote log metadata."""
