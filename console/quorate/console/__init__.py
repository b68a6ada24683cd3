"""The `quorate` command, put together from what each part offers."""
