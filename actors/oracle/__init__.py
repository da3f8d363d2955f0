"""Leader oracles: they tell which broker leads a partition when the log alone cannot."""
