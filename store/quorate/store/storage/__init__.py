"""Bytes on disk: the database, its tables and records, group commit. No rule lives here."""
