"""The archive: Parquet files that hold what stores held, and the manifest that says what is in them."""
