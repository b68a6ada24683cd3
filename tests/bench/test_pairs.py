from __future__ import annotations

from pathlib import Path

import pytest
from bench.pairs import ROOT, compared, extracted, figures, roots

OLD = {"rate": 100.0, "latency_ms": {"p50": 2.0, "p99": 0.0}, "settings": {"stores": 3}}
NEW = {"rate": 90.0, "latency_ms": {"p50": 3.0, "p99": 5.0}, "settings": {"stores": 3}}


def test_every_number_but_the_settings_is_a_figure() -> None:
    assert dict(figures(OLD)) == {"rate": 100.0, "latency_ms p50": 2.0, "latency_ms p99": 0.0}


def test_medians_and_the_ratio_of_each_pair() -> None:
    faster = OLD | {"rate": 120.0}
    rate, latency = compared([(OLD, NEW), (OLD, faster), (faster, OLD)])
    assert rate.split(maxsplit=2) == [
        "rate",
        "0.90",
        "from 100 to 100; the pairs' ratios 0.83 to 1.20",
    ]
    assert " ".join(latency.split()) == (
        "latency_ms p50 1.00 from 2 to 2; the pairs' ratios 1.00 to 1.50"
    ), "and no line for what was 0 before"


def test_the_tree_of_a_commit(tmp_path: Path) -> None:
    tree = extracted("HEAD", tmp_path)
    assert {"proto", "console"} < set(roots(tree))
    assert all((tree / root / "quorate").is_dir() for root in roots(tree))
    with pytest.raises(SystemExit, match=r"there is no tree of no-such-commit: .*no-such-commit"):
        extracted("no-such-commit", tmp_path)
    assert ROOT.samefile(Path(__file__).parent.parent.parent)
