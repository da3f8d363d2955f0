"""The coordinator: one pure state machine, its rules (`decide`, `evolve`), and their shell."""
