"""Bytes on disk: the data directory, the database, its tables and records, and group commit.

No rule lives here: what may be written, served or deleted is decided in quorate.store.rules.
"""
