"""The archive: a table of Parquet files with messages that stores held, and what keeps it up."""
