"""The receiver's rules: answers and batches in, what to ask and to deliver out. Pure."""
