"""Filters: conditions on messages, in the words of SQL."""
