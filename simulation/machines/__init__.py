"""The state machines alone, by the thousand worlds: what simulate runs."""
