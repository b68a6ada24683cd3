"""Files that outlive a power failure, for all parts that keep files.

Nothing here knows gRPC or what a file says.
"""
