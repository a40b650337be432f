"""Reading ACID ORC from HDFS, and listing a large table there, beside the same clients doing nothing but that.

A NameNode and a DataNode run on this machine, so that everything shares its processors. `bytes` reads a file from its
beginning to its end and throws it away: by the client alone, and through acidctl's own reading. `rows` decodes all
columns of the rows that a reader sees; no storage can make that faster than the slower of bytes and local decoding,
to which it is compared. All are timed in turn, and the best of several rounds counts.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import hdfs
import hdfs_native
from hdfs_native.fsspec import HdfsFileSystem

import acidctl
from acidctl.storage.resolve import resolve
from tests.bench.results import seconds_in_turn
from tests.bench.tables import VALID_TXNS, VALID_WRITE_IDS, make_table
from tests.services.hdfs import Hdfs

_BLOCK = 1 << 20
_ROWS_A_MIB = 36_000
_DIRECTORIES = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(prog="bench storage", description=__doc__)
    parser.add_argument("--size", type=int, default=1024, help="MiB of ORC to be read (default: 1024)")
    parser.add_argument("--partitions", type=int, default=10_000, help="partitions to be listed (default: 10000)")
    parser.add_argument("--native-only", action="store_true", help="list by hdfs:// alone; by HTTP it takes minutes")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    table, base = make_table(Path(tempfile.gettempdir()) / "acidctl-bench", options.size * _ROWS_A_MIB)
    with tempfile.TemporaryDirectory() as folder, Hdfs(Path(folder)) as cluster:
        os.environ["HADOOP_USER_NAME"] = cluster.superuser
        if options.size:
            cluster.put_tree(table, "/t")
            _print_reading(cluster, table, base, options.rounds)
        if options.partitions:
            _plant_partitions(cluster, options.partitions)
            _print_listing(cluster, options.partitions, options.rounds, native_only=options.native_only)


def _print_reading(cluster: Hdfs, table: Path, base: Path, rounds: int) -> None:
    path = f"/t/{base.relative_to(table)}"
    host, port = cluster.webhdfs.partition("://")[2].split(":")
    native, web = hdfs_native.Client(cluster.url), hdfs.InsecureClient(f"http://{host}:{port}", user=cluster.superuser)
    others = {
        "fsspec's webhdfs": fsspec.filesystem("webhdfs", host=host, port=int(port), user=cluster.superuser),
        "hdfs-native's fsspec": HdfsFileSystem(host=cluster.host, port=cluster.rpc),
    }
    size = base.stat().st_size

    def through(filesystem: Any) -> Callable[[], None]:
        return lambda: _drain(_other_blocks(filesystem, path), size)

    seconds = _timed(
        {
            "local rows": lambda: _rows(str(table)),
            "hdfs-native bytes": lambda: _drain(_native_blocks(native, path), size),
            "hdfs:// bytes": lambda: _drain(_blocks(cluster.url + path), size),
            "hdfs:// rows": lambda: _rows(cluster.url + "/t"),
            "webhdfs bytes": lambda: _drain(_web_blocks(web, path), size),
            "webhdfs:// bytes": lambda: _drain(_blocks(cluster.webhdfs + path), size),
            "webhdfs:// rows": lambda: _rows(cluster.webhdfs + "/t"),
            **{f"{name} bytes": through(filesystem) for name, filesystem in others.items()},
        },
        rounds,
    )
    mib = size / 2**20
    print(f"{mib:.0f} MiB of ACID ORC on HDFS; best of {rounds}, in turn")
    print(f"{'':28} {'seconds':>8} {'MiB/s':>7}  compared to")
    for name, taken in seconds.items():
        line = f"{name:28} {taken:8.2f} {mib / taken:7.0f}"
        for scheme, client in (("hdfs", "hdfs-native"), ("webhdfs", "webhdfs")):
            plain = seconds[f"{client} bytes"]
            if name == f"{scheme}:// bytes":
                line += f"  {plain / taken:4.2f} of {client} bytes"
            if name == f"{scheme}:// rows":
                possible = max(plain, seconds["local rows"])
                line += f"  {possible / taken:4.2f} of the slower of {client} bytes and local rows"
        print(line)


def _print_listing(cluster: Hdfs, partitions: int, rounds: int, *, native_only: bool) -> None:
    native, web = hdfs_native.Client(cluster.url), hdfs.InsecureClient(cluster.webhdfs.replace("webhdfs", "http"))
    directories = partitions * (1 + _DIRECTORIES)
    over_http = {
        "webhdfs, one by one": lambda: _count(_walked(web, "/p"), directories),
        "ls webhdfs://": lambda: _listed(cluster.webhdfs + "/p", partitions),
    }
    seconds = _timed(
        {
            "hdfs-native, recursive": lambda: _count(native.list_status("/p", True), directories),
            "ls hdfs://": lambda: _listed(cluster.url + "/p", partitions),
            "walk hdfs://": lambda: _walk(cluster.url + "/p", directories),
        },
        rounds,
    )
    if not native_only:  # once: each takes minutes, against which chance counts for little
        seconds |= _timed(over_http, 1)
    print(f"\n{partitions:,} partitions x {_DIRECTORIES} directories on HDFS; best of {rounds}, in turn; by HTTP once")
    for name, taken in seconds.items():
        line = f"{name:28} {taken:8.2f} s"
        for scheme, plain in (("hdfs", "hdfs-native, recursive"), ("webhdfs", "webhdfs, one by one")):
            if name in (f"ls {scheme}://", f"walk {scheme}://"):
                line += f"  {taken / seconds[plain]:4.2f} x {plain}"
        print(line)


def _timed(actions: dict[str, Callable[[], None]], rounds: int) -> dict[str, float]:
    """The least seconds of each, all in turn."""
    return {name: min(all_seconds) for name, all_seconds in seconds_in_turn(actions, rounds).items()}


def _drain(blocks: Iterator[bytes], size: int) -> None:
    read = sum(map(len, blocks))
    if read != size:
        raise SystemExit(f"{read} bytes were read instead of {size}")


def _native_blocks(client: Any, path: str) -> Iterator[bytes]:
    with client.read(path) as reader:
        while block := reader.read(_BLOCK):
            yield block


def _web_blocks(client: Any, path: str) -> Iterator[bytes]:
    with client.read(path, chunk_size=_BLOCK) as blocks:
        yield from blocks


def _other_blocks(filesystem: Any, path: str) -> Iterator[bytes]:
    with filesystem.open(path, "rb") as stream:
        while block := stream.read(_BLOCK):
            yield block


def _blocks(url: str) -> Iterator[bytes]:
    storage, path = resolve(url)
    with closing(storage.open(path)) as stream:
        while block := stream.read(_BLOCK):
            yield block


def _rows(url: str) -> None:
    snapshot = acidctl.open_table(url).snapshot(validtxns=[VALID_WRITE_IDS, VALID_TXNS])
    if not sum(len(batch) for batch in snapshot.to_batches()):
        raise SystemExit(f"{url} has no rows")


def _listed(url: str, partitions: int) -> None:
    command = [sys.executable, "-m", "acidctl", "ls", url, "-o", "json"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    if f'"summary":{{"partitions":{partitions},' not in run.stdout[:1000]:
        raise SystemExit(f"not {partitions} partitions were listed: {run.stdout[:1000]}")


def _walk(url: str, least: int) -> None:
    storage, path = resolve(url)
    _count(iter(storage.walk(path).directories), least)


def _count(found: Iterator[Any], least: int) -> None:
    entries = sum(1 for _ in found)
    if entries < least:
        raise SystemExit(f"{entries} entries were listed, and not {least}")


def _walked(client: Any, root: str) -> Iterator[str]:
    for folder, folders, files in client.walk(root):
        yield from (f"{folder}/{name}" for name in (*folders, *files))


def _plant_partitions(cluster: Hdfs, partitions: int) -> None:
    """Directories as a table has them after five small writes to each partition, a file in each; nobody opens those."""
    client = hdfs_native.Client(cluster.url)

    def plant(number: int) -> None:
        for write_id in range(1, _DIRECTORIES + 1):
            path = f"/p/ds={number:05}/delta_{write_id:07}_{write_id:07}_0000/bucket_00000_0"
            client.create(path, hdfs_native.WriteOptions(create_parent=True)).close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(plant, range(partitions)))


if __name__ == "__main__":
    main()
