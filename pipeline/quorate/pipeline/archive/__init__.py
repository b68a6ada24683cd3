"""The archive: Parquet files with what stores held, and the manifest that says what they have."""
