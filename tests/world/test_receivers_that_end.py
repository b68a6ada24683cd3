"""A receiver that ended begins anew, whatever its former instances do (protocol.md 14.9, 14.10).

Instances are frozen, killed and followed by others. Operators and silence end the receiver, while
stores crash, lose their disks, or are cut off. All of that follows from the seed.
"""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from tests.world.patches_of_decisions import ends_leave_no_mark
from tests.world.script import Script, Taker

from quorate.errors import Deregistered

pytestmark = pytest.mark.expects_log(".*")
SECONDS = 60.0
"""The time of a world, in seconds."""
STEP_SECONDS = 0.1
PAUSE_SECONDS = 1.0
"""The mean time between two of the things that happen."""


class Lives:
    """The receiver of one world, and where its next instance may start at most."""

    def __init__(self, script: Script, random: Random) -> None:
        """Begin with one instance."""
        self._script = script
        self._random = random
        self._lifetime = random.choice((6.0, 3600.0))
        self._newest = script.start_receiver(self._lifetime)
        self._counted: list[Taker] = []
        """The instances whose place counts for the next one."""
        self._went_on: list[Taker] = []
        """The instances that ran after the end, before another one had begun. One that was not told
        of the end may go on as it is."""
        self._ended = False
        """Whether the receiver has ended, and no instance has begun since."""
        self._former: list[Taker] = []
        """The instances that were started before it ended."""
        self._opened: list[Taker] = []
        """Those of them that were open when it ended."""
        self._checked: list[Taker] = []
        self._is_cut = False

    # What happens.

    def freeze(self) -> None:
        """Freeze the newest instance, and start another one."""
        self._pause(self._newest)
        self.start()

    def start(self) -> None:
        """Start another instance."""
        self._newest = self._script.start_receiver(self._lifetime)

    def freeze_for_long(self) -> None:
        """Freeze the newest instance: it is not heard, and nobody follows it yet."""
        self._pause(self._newest)

    def kill(self) -> None:
        """Kill the newest instance, and start another one."""
        if self._newest.name in self._script.world.processes:
            self._script.kill(self._newest)
        self.start()

    def end(self) -> None:
        """Let an operator end the receiver."""
        if self._script.deregister_receiver() > len(self._script.names) // 2:
            self._ended, self._counted, self._went_on = True, [], []
            self._former = list(self._script.takers)
            self._opened = [each for each in self._former if each.receiver is not None]

    def crash(self) -> None:
        """Crash a store, and start it again."""
        self._script.restart(self._random.choice(self._script.names))

    def wipe(self) -> None:
        """Take the disk of a store, if all others vouch."""
        store = self._random.choice(self._script.names)
        if all(map(self._script.vouches, self._script.names)):
            self._script.wipe(store)

    def cut(self) -> None:
        """Cut an instance off from a store, or end that."""
        if self._is_cut:
            self._script.world.network.heal()
        else:
            taker = self._random.choice(self._script.takers[-3:])
            self._script.cut(taker.name, self._random.choice(self._script.names))
        self._is_cut = not self._is_cut

    def _pause(self, taker: Taker) -> None:
        if taker.name in self._script.world.processes:
            seconds = self._random.choice((0.5, 3.0, 10.0, 30.0))
            self._script.world.pause(taker.name, seconds)

    # What must hold.

    def look(self) -> None:
        """Raise AssertionError if an instance began behind what counts."""
        for taker in self._script.takers:
            if taker.taken and taker not in (*self._checked, *self._former):
                self._checked.append(taker)
                reached = max((n for each in self._reaching(taker) for n in each.taken), default=-1)
                assert taker.taken[0] <= reached + 1, f"{taker.name} began at {taker.taken[0]}"
            if taker.receiver is not None and taker not in (*self._counted, *self._opened):
                self._ended = False
                self._counted.append(taker)
            if self._ended and self._runs(taker) and taker not in self._went_on:
                self._went_on.append(taker)

    def _reaching(self, taker: Taker) -> list[Taker]:
        """Return the instances whose places count for this one."""
        went_on = [each for each in self._went_on if not isinstance(each.error, Deregistered)]
        return [each for each in (*self._counted, *went_on) if each is not taker]

    def _runs(self, taker: Taker) -> bool:
        process = self._script.world.processes.get(taker.name)
        now = self._script.world.clock.now
        return process is not None and process.loop.paused_until <= now


KINDS = (
    "freeze",
    "freeze",
    "freeze_for_long",
    "start",
    "kill",
    "end",
    "end",
    "crash",
    "wipe",
    "cut",
)


def live_through(seed: int, directory: Path) -> int:
    """Run a world. Return how many instances were handed something."""
    random = Random(seed)
    with Script(seed, directory) as script:
        source = script.start_source()
        script.until(lambda: source.receipts)
        lives = Lives(script, random)
        end, due = script.world.clock.now + SECONDS, 0.0
        while script.world.clock.now < end:
            script.run(STEP_SECONDS)
            lives.look()
            if script.world.clock.now >= due:
                getattr(lives, random.choice(KINDS))()
                lives.look()
                due = script.world.clock.now + random.expovariate(1 / PAUSE_SECONDS)
        return sum(bool(taker.taken) for taker in script.takers)


@pytest.mark.parametrize("seed", [2, 5, 6])
def test_a_receiver_that_ended_begins_anew(seed: int, tmp_path: Path) -> None:
    assert live_through(seed, tmp_path) > 3


def test_where_an_end_leaves_no_mark_a_receiver_begins_behind_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends_leave_no_mark(monkeypatch)
    with pytest.raises(AssertionError, match="began at"):
        live_through(5, tmp_path)
