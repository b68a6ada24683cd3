"""The pipeline's jobs, one file each, and the command line in front of them."""
