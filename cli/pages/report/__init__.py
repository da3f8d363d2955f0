"""The page of `replay --report`: each partition as its log tells it."""
