"""Tests of acidctl, and what they are built with (`support`), measured with (`bench`) and run against (`services`)."""

from pathlib import Path

# The top of the checkout.
ROOT = Path(__file__).resolve().parent.parent
