"""A cluster's metadata, moved between Kafka's own manager and tierledger (ADR 0051)."""
