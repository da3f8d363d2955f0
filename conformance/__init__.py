"""Replays recorded metadata topics through a service, and compares answers with Kafka's."""
