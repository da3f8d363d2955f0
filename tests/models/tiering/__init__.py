"""Remote storages and tiers: in memory, on a real S3 server, with faults or damage."""
