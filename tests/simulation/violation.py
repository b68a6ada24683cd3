"""How the simulated world says that something does not hold."""

from __future__ import annotations


class Violation(AssertionError):
    """Something that must always hold does not."""

    def __init__(self, rule: str, text: str) -> None:
        super().__init__(rule, text)
        self.rule = rule
        self.text = text

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"
