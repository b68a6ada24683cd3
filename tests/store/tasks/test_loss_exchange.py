from __future__ import annotations

import pytest
from tests.store.rules.test_accepted_losses import Lossy

from quorate.protocol.ranges import HeldRange
from quorate.store.tasks.loss_exchange import learn_losses


@pytest.mark.expects_log("accepted by an operator")
def test_every_loss_that_is_news_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = Lossy().with_holes()
    told = [HeldRange(10, 19, 1), HeldRange(30, 34, 1)]
    world.write(learn_losses(world.losses, world.state, told, "store s2"))
    assert [record.getMessage().partition(" is lost")[0] for record in caplog.records] == [
        "accepted by an operator: [10, 19] of orders/0x10",
        "accepted by an operator: [30, 34] of orders/0x10",
    ]
    caplog.clear()
    assert learn_losses(world.losses, world.state, told, "store s3") == ()
    assert caplog.records == []
    assert world.reopened().state.holes() == [], "both were written"
