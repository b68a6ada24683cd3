"""Writing with Spark: each task is a source for each topic, and a repeated batch adds nothing."""
