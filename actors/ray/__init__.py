"""Ray: the processes of a cluster, started, placed, watched and ended."""
