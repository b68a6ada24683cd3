"""The store's loops: each brings a clock, the rules and the engine together."""
