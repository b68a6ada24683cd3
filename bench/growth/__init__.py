"""The cost of a message, against what a group has: journal, sources, receivers, keys."""
