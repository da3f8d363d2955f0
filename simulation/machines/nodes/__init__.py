"""The processes of a world, on virtual time."""
