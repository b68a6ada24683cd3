"""A client of the stores for code without asyncio: what there is, and its batches as rows."""
