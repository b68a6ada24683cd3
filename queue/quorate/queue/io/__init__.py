"""The tasks and calls of a dispatcher."""
