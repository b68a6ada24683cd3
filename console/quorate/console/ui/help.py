"""The help of a command with many options: those that people use first, then the rest in groups.

An option names its group by `rich_help_panel`. The text itself stays plain.
"""

from __future__ import annotations

from typing import Any

import typer.core

FIRST = "Options"
"""The group of an option that names none."""
SAFETY = "Identity and safety"
WAITING = "Waiting"
FORMAT = "Input and output"
GROUPS = "Stores in groups"


class GroupedCommand(typer.core.TyperCommand):
    """A command whose help shows its options in groups."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then each group of options in the order of its first option."""
        arguments: list[tuple[str, str]] = []
        groups: dict[str, list[tuple[str, str]]] = {FIRST: []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if parameter.param_type_name == "argument":
                arguments.append(record)
            else:
                group = getattr(parameter, "rich_help_panel", None) or FIRST
                groups.setdefault(group, []).append(record)
        for title, records in {"Arguments": arguments, **groups}.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
