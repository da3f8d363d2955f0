"""The store in a PostgreSQL database, to which several hosts can write."""
