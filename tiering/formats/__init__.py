"""Kafka's files: indexes, batches of records, snapshots, checkpoints."""
