"""The same brokers and checkers against real processes that are killed and frozen."""
