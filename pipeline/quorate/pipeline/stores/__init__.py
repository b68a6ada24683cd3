"""A client of the stores for code without asyncio: their inventory, and their batches as rows."""
