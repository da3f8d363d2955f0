"""What changes in a partition's answers, as a stream that replicas keep up with."""
