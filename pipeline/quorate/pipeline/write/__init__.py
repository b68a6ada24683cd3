"""Writing with Spark: each task is a source, and a retried micro-batch adds nothing."""
