"""What a service costs: its calls, its longest steps, what partitions cost each other."""
