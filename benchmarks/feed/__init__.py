"""What a replica costs that is fed through the door."""
