"""The store's background loops: each brings a clock, the rules and the engine together.

No rule lives here: what is to be done is decided in quorate.store.rules.
"""
