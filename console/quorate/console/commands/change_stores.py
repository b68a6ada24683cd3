"""`quorate store add`, `remove` and `replace`: a group goes through a change of its stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quorate.console.ui.confirmation import Yes, confirm
from quorate.console.ui.exits import say
from quorate.console.ui.options import OutputFormat, Stores
from quorate.console.ui.output import Output, print_json, print_jsonl
from quorate.console.ui.running import run
from quorate.console.ui.settings import GroupSettings, resolve
from quorate.protocol.errors import InvalidArgument, QuorateError
from quorate.protocol.exit_codes import UNHEALTHY
from quorate.protocol.identity import StoreAddress

if TYPE_CHECKING:
    from quorate.console.group.rules.change_situation import Situation
    from quorate.console.group.rules.change_steps import Step
    from quorate.console.group.rules.store_change import StoreChange

_MOVE_SECONDS = 30.0
"""Seconds to wait for the registration of a source that is moved."""

Wait = Annotated[
    float | None,
    typer.Option(
        "--wait",
        min=0,
        metavar="SECONDS",
        help="Wait for the steps for so long at most, then exit 10. 0: look once.  [without end]",
    ),
]
Plan = Annotated[bool, typer.Option("--plan", help="Only show the steps and what could go wrong.")]
MoveAway = Annotated[
    bool,
    typer.Option(
        "--move-away",
        help="Move sources that do not run: open each for a moment with its new policy. One that "
        "does run after all, cut off from its stores, is fenced.",
    ),
]
AnswerTimeout = Annotated[
    float, typer.Option("--timeout", help="Seconds to wait for each store at each look.")
]
Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The store, as `quorate status` shows it.")
]


def add(
    context: typer.Context,
    store: Annotated[
        str, typer.Argument(metavar="NAME=HOST:PORT", help="The further store; it need not run.")
    ],
    group: Annotated[
        str, typer.Option("--group", metavar="NAME", help="The group that it comes to.")
    ] = "",
    move_away: MoveAway = False,
    plan: Plan = False,
    yes: Yes = False,
    wait: Wait = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: AnswerTimeout = 5.0,
) -> None:
    """Add a store to a group, step by step.

    The command says what to do, waits until it is done, and ends when every source uses the new
    store. It keeps nothing: after an interruption the same command goes on where the group is.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    from quorate.console.group.rules.store_change import StoreChange

    _carry(
        StoreChange(new=StoreAddress.parse(store), group=group),
        settings,
        _Manner(move_away, plan, yes, wait),
    )


def remove(
    context: typer.Context,
    store: Name,
    move_away: MoveAway = False,
    plan: Plan = False,
    yes: Yes = False,
    wait: Wait = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: AnswerTimeout = 5.0,
) -> None:
    """Remove a store from a group for good, step by step.

    The command says when the store may be stopped: not before every source goes on without it.
    """
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    from quorate.console.group.rules.store_change import StoreChange

    _carry(StoreChange(old=store), settings, _Manner(move_away, plan, yes, wait))


def replace(
    context: typer.Context,
    store: Name,
    new: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME=HOST:PORT",
            help="The store that takes its place. The same name: the store moves to that address.  "
            "[the same name and address: its disk is lost]",
        ),
    ] = None,
    move_away: MoveAway = False,
    plan: Plan = False,
    yes: Yes = False,
    wait: Wait = None,
    stores: Stores = None,
    output: OutputFormat = None,
    timeout: AnswerTimeout = 5.0,
) -> None:
    """Replace a store by another one, or by itself on a blank disk or at another address."""
    settings = resolve(context.meta, stores=stores, output=output, timeout=timeout)
    from quorate.console.group.rules.store_change import StoreChange

    coming = StoreAddress.parse(new) if new is not None else _same(settings, store)
    _carry(StoreChange(old=store, new=coming), settings, _Manner(move_away, plan, yes, wait))


def _same(settings: GroupSettings, name: str) -> StoreAddress:
    """Return the store of the settings with this name. Raises InvalidArgument."""
    for store in settings.stores:
        if store.name == name:
            return store
    known = ", ".join(store.name for store in settings.stores)
    raise InvalidArgument(
        "store", f"{name} is none of {known}; name it in --stores, or give NAME=HOST:PORT"
    )


@dataclass(frozen=True, slots=True)
class _Manner:
    """The manner in which a change is carried out, by the options of the command."""

    move_away: bool
    plan: bool
    yes: bool
    wait: float | None


def _carry(change: StoreChange, settings: GroupSettings, manner: _Manner) -> None:
    from quorate.console.group.change_watch import follow, look, move_away
    from quorate.console.group.rules.change_risks import check, risks
    from quorate.console.group.rules.change_steps import steps
    from quorate.console.group.status import too_few

    async def looking() -> Situation:
        return await look(change, settings.stores, settings.timeout)

    async def looking_and_moving() -> Situation:
        found = await looking()
        if await move_away(found, _MOVE_SECONDS, say):
            return await looking()
        return found

    first = run(looking)
    if all(isinstance(answer, QuorateError) for answer in first.answers.values()):
        raise too_few("The change", first.answers)
    check(first)
    warnings, found = risks(first), steps(first)
    if settings.output is Output.TABLE:
        _show_plan(change, found, warnings)
    if not manner.plan:
        confirm(f"Go on with this change: {change}?", manner.yes)
        telling = _Telling(settings.output)
        acting = looking_and_moving if manner.move_away else looking
        found = run(lambda: follow(acting, telling.told, manner.wait))
    _show_end(change, found, warnings, settings.output, manner.plan)
    if not manner.plan and not all(step.done for step in found):
        raise typer.Exit(UNHEALTHY)


def _show_plan(change: StoreChange, found: list[Step], warnings: list[str]) -> None:
    print(f"Plan: {change}")
    for number, step in enumerate(found, 1):
        print(f"  {number}. {step.title}{' (done)' if step.done else ''}")
    if warnings:
        say("Risks, and facts to know before:")
    for warning in warnings:
        say(f"  - {warning}", style="yellow")


_AFTERWARDS = (
    "Remove [[previous]] from the configurations. Name the stores in --stores as they are now."
)


class _Telling:
    """Tells the progress: each step that is done, and the next one with the operator's part."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._before: list[Step] = []
        self._done: set[str] = set()
        self._lines: set[str] = set()
        self._said = ""

    def told(self, found: list[Step]) -> None:
        """Tell what is new in these steps."""
        if self._output is Output.JSONL:
            news = (step for step in found if step not in self._before)
            print_jsonl({"kind": "step", **step.row()} for step in news)
            self._before = found
        if self._output is not Output.TABLE:
            return
        for number, step in enumerate(found, 1):
            if not step.done:
                self._tell_next(number, step)
                return
            if step.title not in self._done:
                self._done.add(step.title)
                say(f"{number}. {step.title}: done.", style="green")

    def _tell_next(self, number: int, step: Step) -> None:
        text = f"{number}. {step.title}: waits for {step.waits_for}."
        if text != self._said:
            self._said = text
            say(text)
        if not self._lines.issuperset(step.lines):
            self._lines.update(step.lines)
            for line in step.lines:
                say(f"     {line}" if line else "")


def _show_end(
    change: StoreChange, found: list[Step], warnings: list[str], output: Output, plan: bool
) -> None:
    is_done = all(step.done for step in found)
    facts: dict[str, Any] = {
        "change": str(change),
        "done": is_done,
        "risks": warnings,
        "steps": [step.row() for step in found],
    }
    match output:
        case Output.JSON:
            print_json(facts)
        case Output.JSONL:
            print_jsonl([{"kind": "change", **facts}])
        case Output.TABLE if is_done:
            afterwards = "" if change.keeps_name else f" {_AFTERWARDS}"
            say(f"Done: {change}.{afterwards}", style="green")
        case Output.TABLE if not plan:
            waiting = next(step for step in found if not step.done)
            say(
                f"Not done yet: {change}. It waits for {waiting.waits_for}. Run the same command "
                "again to go on.",
                style="bold red",
            )
