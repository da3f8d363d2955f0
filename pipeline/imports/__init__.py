"""Import of Kafka's metadata topic."""
