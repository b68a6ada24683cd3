"""The archive: Parquet files with messages that stores held, and the manifest that lists them."""
