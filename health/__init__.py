"""How a running service stands: asked, put together, and served as metrics."""
