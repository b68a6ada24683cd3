"""The calls of a subscriber to stores."""
