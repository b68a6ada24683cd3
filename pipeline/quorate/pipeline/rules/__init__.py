"""The rules by which the pipeline plans and compares: no call, clock, file or Spark."""
