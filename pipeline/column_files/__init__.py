"""Events that were decoded once, as columns in Parquet files beside a store."""
