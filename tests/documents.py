"""A page of the manual, as tests read it: its text, its blocks of code, its tables."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

_PAGES = Path(__file__).parents[1] / "docs"


def shape(text: str) -> list[str]:
    """Return the words of a text. Numbers, paths and widths differ from run to run."""
    words = re.sub(r"─+", "─", re.sub(r"/\S*/", "/…/", text)).split()
    return [re.sub(r"[\d,]*\d", "#", word) for word in words]


class Document:
    """One page."""

    def __init__(self, name: str) -> None:
        """Read the page of this name."""
        self.text = (_PAGES / f"{name}.md").read_text()

    def blocks(self, language: str) -> list[str]:
        """Return the blocks of code in a language."""
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.M | re.S)

    def block(self, language: str) -> str:
        """Return the only block of code in a language."""
        (found,) = self.blocks(language)
        return found

    def run(self, name: str, **given: Any) -> dict[str, Any]:
        """Run the code that defines this function, and return all that it defines."""
        (code,) = (each for each in self.blocks("python") if f"def {name}(" in each)
        exec(code, given)
        return given

    def defined(self, name: str) -> Any:
        """Return the function of this name that the page defines."""
        return self.run(name)[name]

    def table(self, first_heading: str) -> list[list[str]]:
        """Return the cells of the rows below a table's headings."""
        found = self.text[self.text.index(f"| {first_heading} |") :]
        rows = found.split("\n\n")[0].splitlines()[2:]
        return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
