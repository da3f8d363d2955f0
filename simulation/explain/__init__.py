"""One run of the simulator as a page or as text."""
