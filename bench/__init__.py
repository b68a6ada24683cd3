"""Measurements that need more than the `quorate` command; run from the Makefile, not shipped."""
