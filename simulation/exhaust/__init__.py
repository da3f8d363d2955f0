"""Every schedule of a small world."""
