"""What commands ask a group of stores, and what they make of its answers. No terminal."""
