"""One partition: its state, decisions on commands, effects of events, and answers."""
