"""The calls to a group of stores, and the comparison of its answers. No terminal."""
