"""`tierledger simulate`."""
