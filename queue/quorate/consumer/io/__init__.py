"""The call of a consumer to the dispatcher of its queue."""
