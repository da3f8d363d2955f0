"""Many seeds: run them, count results, shrink failures."""
