"""Clusters that move: plugins, Kafka's own manager, the follower of its topic, the command."""
