"""The receiver's rules: answers and batches go in, what to ask and to deliver comes out. Pure."""
