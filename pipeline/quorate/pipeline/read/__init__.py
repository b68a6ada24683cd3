"""Reading with Spark: the batch and the stream reader, their offsets and filters."""
