"""The core's rules written a second time, plain and slow, to judge what the service does."""
