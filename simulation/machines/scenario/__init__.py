"""What is to happen: a seed's size, limits and decisions, simplified and shrunk."""
