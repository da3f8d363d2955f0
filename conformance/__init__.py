"""Recorded metadata topics: replayed through the service, our answers held against Kafka's."""
