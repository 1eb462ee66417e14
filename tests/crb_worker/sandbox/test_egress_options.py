"""What an operator may set about egress is checked before a worker takes its first step."""

from __future__ import annotations

import pytest

from crb_core.errors import SettingsError
from crb_core.settings import load_settings
from crb_worker.sandbox.egress_options import require_lanes


@pytest.mark.parametrize(
    ("subnets", "network", "slots", "fits"),
    [
        ("10.9.0.0/28", None, 1, False),
        ("10.9.0.0/28", "proxies", 1, True),
        ("10.9.0.0/27", None, 1, True),
        ("10.9.0.0/27", None, 2, False),
        ("10.9.0.0/27", "proxies", 2, True),
        ("10.9.0.0/26", None, 5, True),
        ("10.9.0.0/26", None, 6, False),
        ("10.9.0.0/28", None, 0, True),
        (None, None, 512, True),
    ],
)
def test_a_worker_needs_a_network_for_each_review(
    subnets: str | None, network: str | None, slots: int, fits: bool
) -> None:
    """For those that run, and for those that are prepared ahead; else attempts would fail for want of a subnet."""
    settings = load_settings(egress_subnets=subnets, egress_network=network)
    if fits:
        require_lanes(settings, slots)
    else:
        with pytest.raises(SettingsError, match="CRB_EGRESS_SUBNETS"):
            require_lanes(settings, slots)
