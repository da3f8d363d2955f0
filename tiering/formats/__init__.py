"""Formats of Kafka's files: indexes, record batches, snapshots, checkpoints."""
