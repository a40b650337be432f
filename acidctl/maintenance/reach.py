"""Whether a storage does not answer at all, or only did not answer once: the two look alike to who asked."""

from __future__ import annotations

from acidctl.errors import AcidctlError, UnreachableError
from acidctl.storage.port import Storage

# One silent machine of several takes some partitions with it, seldom so many in a row; each costs minutes of waiting.
IN_A_ROW = 5


class Reach:
    """Whether it is worth asking a storage for one more partition; its methods may be called by several threads.

    `gone`: it does not answer for the table itself. `stopped`: besides, `IN_A_ROW` partitions in a row found it silent,
    as where the NameNode is well and no DataNode gives data: what has not begun by then would only wait for the same.
    `heard`: it has given the data of some partition.
    """

    def __init__(self, storage: Storage, root: str) -> None:
        self._storage = storage
        self._root = root
        self._silent: set[str] = set()
        self.gone = False
        self.heard = False

    @property
    def stopped(self) -> bool:
        return self.gone or len(self._silent) >= IN_A_ROW

    def heed(self, partition: str, error: AcidctlError) -> None:
        """An error that became of a partition, by its path: silence counts, a refusal says nothing of others."""
        if error.code == UnreachableError.code and not self.stopped:
            self.gone = is_gone(self._storage, self._root, error)
            self._silent.add(partition)

    def answered(self) -> None:
        """Data of some partition was read."""
        self.heard = True
        if not self.stopped:
            self._silent.clear()


def is_gone(storage: Storage, root: str, error: AcidctlError) -> bool:
    """Whether after such an error nothing can be asked: not for the table itself either.

    A refusal is an answer, and so is "not found". One machine of many that is down takes some files with it, and the
    storage still answers for the table.
    """
    # An error of a worker need not have its type any more.
    if error.code != UnreachableError.code:
        return False
    try:
        storage.stat(root)
    except AcidctlError as second:
        return second.code == UnreachableError.code
    return False
