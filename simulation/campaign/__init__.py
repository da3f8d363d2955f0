"""Many seeds: run, counted, failures made small."""
