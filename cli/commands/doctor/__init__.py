"""`tierledger doctor`."""
