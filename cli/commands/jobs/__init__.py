"""`tierledger tables` and `tierledger jobs`."""
