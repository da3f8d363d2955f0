"""Kafka's own remote log metadata manager in a stock broker, compared with ours."""
