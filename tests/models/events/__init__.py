"""A partition's rules without actors, and answers to compare them with."""
