"""`tierledger status`."""
