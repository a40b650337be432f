"""How much the tests of real services go through: chosen cases, or all of them in some hours."""

from __future__ import annotations

import os

# Set for `make sweep`: every fixture step instead of chosen ones, each by every reader, and a fault at every call.
SWEEP = bool(os.environ.get("ACIDCTL_SWEEP"))
