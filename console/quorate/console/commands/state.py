"""`quorate state`: the last stable message of each key of a topic."""

from __future__ import annotations

import typer

from quorate.console.commands.state_changes import delete, watch
from quorate.console.commands.state_queries import count, get, query, sql

state = typer.Typer(
    help="Query, watch and delete the last message of each key.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

state.command(short_help="Print the rows of these keys.")(get)
state.command(short_help="Print the rows that a condition selects.")(query)
state.command(short_help="Count the rows that a condition selects.")(count)
state.command(short_help="Answer a statement in SQL over the rows.")(sql)
state.command(short_help="Print the rows, and each change of them.")(watch)
state.command(short_help="Delete rows, by key or by a condition.")(delete)
