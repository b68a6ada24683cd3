"""`quorate generate`: files for the systems that watch the stores."""

from __future__ import annotations

import json
from typing import Annotated

import typer

generate = typer.Typer(
    help="Print alerts and a dashboard for the systems that watch the stores.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@generate.command()
def alerts(
    operator: Annotated[
        bool,
        typer.Option(
            "--operator", help="As a PrometheusRule, for the Prometheus operator on Kubernetes."
        ),
    ] = False,
) -> None:
    """Print the alerts, as a file of rules for Prometheus."""
    from quorate.store.monitor.alerts import as_yaml, rules, rules_of_operator

    print(as_yaml(rules_of_operator() if operator else rules()), end="")


@generate.command()
def dashboard() -> None:
    """Print the dashboard, as JSON that Grafana imports."""
    from quorate.store.monitor.dashboard import dashboard as made

    print(json.dumps(made(), indent=2))
