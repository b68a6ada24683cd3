from quorate.source.protocol.retention import Retention


def filled(frames: int, each: int = 10) -> Retention:
    retention = Retention(0)
    for number in range(frames):
        first = number * each
        retention.append(first, first + each - 1, b"x" * 100, (number + 1) * 1000, float(number))
    return retention


def test_frames_are_found_by_number_and_by_ordinal() -> None:
    retention = filled(5)
    assert retention.next_sequence == 50
    assert retention.ordinal_of(0) == 0
    assert retention.ordinal_of(9) == 0
    assert retention.ordinal_of(10) == 1
    assert retention.ordinal_of(50) == 5
    item = retention.at(3)
    assert item is not None
    assert (item.first, item.last) == (30, 39)
    assert retention.at(5) is None


def test_a_frame_is_settled_only_when_all_of_it_is_stable() -> None:
    retention = filled(3)
    assert retention.settle(8) == -1
    assert retention.settle(9) == 1000
    assert retention.settle(25) == 2000
    oldest = retention.oldest_unsettled()
    assert oldest is not None
    assert oldest.first == 20
    assert [item.first for item in retention.unsettled()] == [20]


def test_stable_frames_go_when_no_store_needs_them() -> None:
    retention = filled(4)
    retention.settle(29)
    retention.trim(needed_from=20, bytes_max=1_000_000)
    assert retention.first == 20
    assert retention.base == 2
    assert retention.ordinal_of(30) == 3


def test_unstable_frames_never_go() -> None:
    retention = filled(4)
    retention.settle(9)
    retention.trim(needed_from=40, bytes_max=0)
    assert retention.first == 10
    assert len(retention) == 3


def test_what_lagging_stores_need_is_bounded_in_bytes() -> None:
    retention = filled(4)
    retention.settle(39)
    retention.trim(needed_from=0, bytes_max=600)
    assert retention.first == 20
    assert retention._settled_memory <= 600


def test_when_all_is_gone_it_goes_on_at_the_next_number() -> None:
    retention = filled(2)
    retention.settle(19)
    retention.trim(needed_from=20, bytes_max=0)
    assert len(retention) == 0
    assert retention.first == 20
    assert retention.oldest_unsettled() is None
    retention.append(20, 20, b"y", 2001, 3.0)
    assert retention.ordinal_of(20) == retention.base == 2
