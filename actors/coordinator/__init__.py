"""The coordinator: one pure state machine, the rules it goes by, and the shell around it."""
