"""One run of the simulator, told as a page or as text."""
