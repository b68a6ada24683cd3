"""The calls that a store answers, one file a call. No rule lives here."""
