"""Asking a storage again: bounded, with growing pauses, and only for what is transient and reads."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from acidctl.errors import StorageError

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Patience:
    """How often something is tried, and how long in between.

    The pause after try number n is at most `first` x `factor`^(n-1) seconds, and by chance down to half of it, so that
    many who wait for one server do not all come back at once.
    """

    attempts: int = 4
    first: float = 0.2
    factor: float = 3.0
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def pause(self, tried: int) -> None:
        """Wait after so many tries."""
        self.sleep(self.first * self.factor ** (tried - 1) * (0.5 + self.chance() / 2))

    def ask(self, action: Callable[[], Answer], *, before_again: Callable[[], None] = lambda: None) -> Answer:
        """What `action` answers; after a transient StorageError it is asked again, `before_again` first.

        The error of the last try is raised, with `attempts` telling how often it was tried; who gets such an error does
        not try again.
        """
        for tried in range(1, self.attempts + 1):
            try:
                if tried > 1:
                    before_again()
                return action()
            except StorageError as error:
                if not error.transient or error.attempts > 1:
                    raise
                if tried == self.attempts:
                    error.attempts = tried
                    raise
            self.pause(tried)
        raise AssertionError("the last try answers or raises")


PATIENT = Patience()
