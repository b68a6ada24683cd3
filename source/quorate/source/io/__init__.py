"""The source's tasks, calls and servers. They carry out what the protocol folder decides."""
