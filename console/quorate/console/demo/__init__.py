"""`quorate demo`: a real stream, real failures, and a verdict from the outside."""
