"""The rules of leaders, followers and the coordinator, and the Ray shells around them."""
