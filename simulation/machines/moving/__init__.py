"""Clusters that move: plugins, Kafka's own manager, who follows it, and the command."""
