"""Pages, and a browser that opens them."""
