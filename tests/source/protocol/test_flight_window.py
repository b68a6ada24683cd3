from quorate.protocol.attributes import NO_ATTRIBUTES, Attributes
from quorate.protocol.limits import BATCH_BYTES_TARGET, BATCH_MESSAGES_MAX
from quorate.source.options import FlightBehaviour, SourceOptions
from quorate.source.protocol.flight_window import Window


def opened(options: SourceOptions) -> Window:
    window = Window(options)
    window.is_open = True
    window.refresh()
    return window


def may_send(window: Window) -> bool:
    return window.next_sequence < window.pause_at and window.sent_bytes < window.pause_at_bytes


def send(window: Window, payload: bytes = b"x", time_ns: int = 5) -> None:
    window.times.append(time_ns)
    window.payloads.append(payload)
    window.next_sequence += 1
    window.sent_bytes += len(payload)


def test_closed_it_lets_nothing_pass() -> None:
    window = Window(SourceOptions())
    window.refresh()
    assert not may_send(window)


def test_the_first_message_of_a_batch_pauses_and_the_others_pass() -> None:
    window = opened(SourceOptions())
    assert not may_send(window)
    window.gather()
    send(window)
    assert may_send(window)
    assert window.take() == (0, [b"x"], [], [5])
    assert not may_send(window)


def test_a_batch_ends_at_its_count_and_at_its_bytes() -> None:
    window = opened(SourceOptions())
    window.gather()
    while may_send(window):
        send(window, b"")
    assert window.next_sequence == BATCH_MESSAGES_MAX
    assert window.full
    window.take()
    window.gather()
    while may_send(window):
        send(window, b"x" * 1000)
    assert window.full
    assert BATCH_BYTES_TARGET <= window.sent_bytes < BATCH_BYTES_TARGET + 1000


def test_flight_blocks_by_messages_until_they_are_stable() -> None:
    window = opened(SourceOptions(flight_messages=3))
    window.gather()
    while may_send(window):
        send(window)
    assert window.next_sequence == 3
    assert window.blocked
    window.settle(0, 1)
    assert may_send(window)


def test_flight_blocks_by_bytes() -> None:
    window = opened(SourceOptions(flight_bytes=100))
    window.gather()
    while may_send(window):
        send(window, b"x" * 40)
    assert window.next_sequence == 3
    assert window.blocked
    window.take()
    window.settle(2, 120)
    window.gather()
    assert may_send(window)


def test_with_notify_flight_is_exceeded_but_never_blocks() -> None:
    window = opened(SourceOptions(flight_messages=2, flight_behaviour=FlightBehaviour.NOTIFY))
    window.gather()
    while may_send(window):
        send(window)
    assert window.next_sequence == 2
    assert window.exceeded
    assert not window.blocked
    window.exceeded_noted = True
    window.gather()
    for _ in range(5):
        assert may_send(window)
        send(window)


def test_reserved_it_lets_nobody_else_pass() -> None:
    window = opened(SourceOptions())
    window.gather()
    send(window)
    window.reserved = True
    window.refresh()
    assert not may_send(window)


def test_a_restart_keeps_what_has_gathered() -> None:
    window = opened(SourceOptions())
    window.gather()
    send(window, b"abc")
    window.take()
    send(window, b"de")
    window.restart(packed_upto=9, packed_bytes=500, stable_upto=4)
    assert window.next_sequence == 11
    assert window.gathered_from == 10
    assert window.sent_bytes == 502


def test_attributes_stay_with_their_messages() -> None:
    window = opened(SourceOptions())
    send(window, b"0")
    one, four = Attributes(b"one"), Attributes(b"four")
    window.add([b"1", b"2"], [one, NO_ATTRIBUTES], 2 + one.size, 6)
    send(window, b"3")
    window.add([b"4"], [four], 1 + four.size, 4)
    send(window, b"5")
    assert window.sent_bytes == 6 + one.size + four.size
    none = NO_ATTRIBUTES
    expected = (0, [b"0", b"1", b"2", b"3", b"4", b"5"], [none, one, none, none, four, none])
    assert window.take() == (*expected, [5, 6, 6, 5, 4, 5])
    send(window, b"6")
    assert window.take() == (6, [b"6"], [], [5])


def test_a_send_that_was_interrupted_leaves_no_time_to_the_next_batch() -> None:
    window = opened(SourceOptions())
    window.times.append(1)
    window.add([b"0"], [], 1, 2)
    window.times.append(3)
    assert window.take() == (0, [b"0"], [], [2])
    send(window, b"1", 4)
    assert window.take() == (1, [b"1"], [], [4])


def test_times_stay_with_their_messages_when_more_has_gathered_than_a_batch_has() -> None:
    window = opened(SourceOptions(flight_behaviour=FlightBehaviour.NOTIFY))
    for number in range(BATCH_MESSAGES_MAX + 2):
        send(window, b"x", number)
    assert window.take().times == list(range(BATCH_MESSAGES_MAX))
    assert window.take().times == [BATCH_MESSAGES_MAX, BATCH_MESSAGES_MAX + 1]
