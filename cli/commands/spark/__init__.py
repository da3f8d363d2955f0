"""`tierledger spark`."""
