"""The calls that a store answers, one file a call.

No rule lives here: what is answered is decided in quorate.store.rules.
"""
