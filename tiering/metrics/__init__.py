"""What a tier measures."""
