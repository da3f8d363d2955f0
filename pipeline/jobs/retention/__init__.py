"""What another retention would delete."""
