"""Benchmarks that need more than the `quorate` command. The Makefile runs them; none is shipped."""
