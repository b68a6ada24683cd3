"""The print of measurements: one line each, in one form for all benchmarks."""


def say(what: str, value: str, more: str) -> None:
    """Print what was measured, the figure, and further facts about it."""
    print(f"{what:<60}{value:>14}  {more}", flush=True)
