"""A hostile agent: does what RB_CONFIG_ATTACK names."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# The interpreter is isolated (-I), so that nothing in the checkout is imported by accident.
sys.path.insert(0, str(Path(__file__).parent))

import disk  # noqa: F401
import hunts  # noqa: F401
import memory  # noqa: F401
import output  # noqa: F401
import planted  # noqa: F401
import processes  # noqa: F401
import rights  # noqa: F401
import sidesteps  # noqa: F401
import text  # noqa: F401
from acts import ATTACKS

ATTACKS[os.environ["RB_CONFIG_ATTACK"]]()
