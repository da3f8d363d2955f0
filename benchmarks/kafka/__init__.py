"""What a stock broker gets from Kafka's own manager of remote log metadata, and from ours."""
