"""The containers that a partition's state is made of."""
