"""What happens to processes: time, messages, a store, and what is recorded of them."""
