"""How measurements are printed: a line each, the same for all of them."""


def say(what: str, value: str, more: str) -> None:
    """What was measured, the figure, and what belongs to it."""
    print(f"{what:<60}{value:>14}  {more}", flush=True)
