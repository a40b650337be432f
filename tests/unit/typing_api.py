"""Only has to type-check: the public types, as a user's own strictly checked code sees them."""

from __future__ import annotations

from typing import assert_type

import acidctl
from acidctl.state.report import LsSummary


def use(url: str) -> int:
    """What README.md shows, and a little more."""
    table = acidctl.open_table(url, storage_options={"anon": True})
    assert_type(table, acidctl.Table)
    assert_type(table.location, str)
    report = table.ls(validtxns="default.t:9:9223372036854775807::", long=True, rows=True, partitions=["ds=1"])
    assert_type(report, acidctl.LsReport)
    assert_type(report.summary, LsSummary)
    assert_type(report.entries, tuple[acidctl.LsEntry, ...])
    for entry in report.entries:
        assert_type(entry.state, str)
        assert_type(entry.max_write_id, int | None)
        assert_type(entry.because_of, tuple[str, ...])
    snapshot = table.snapshot(as_of=20, schema="id int")
    assert_type(snapshot, acidctl.Snapshot)
    assert_type(snapshot.count(), int)
    for batch in snapshot.to_batches():
        print(batch.num_rows)
    done = acidctl.compact(url, "major", validtxns=["default.t:9:9223372036854775807::"], target="hive4")
    assert_type(done, acidctl.CompactionReport)
    assert_type(table.compact("minor", assume_committed=True), acidctl.CompactionReport)
    assert_type(table.plan_compaction("major", as_of=5, assume_committed=True), acidctl.CompactionPlan)
    assert_type(table.clean(validtxns=["20:15:15"], older_than=None), acidctl.CleanReport)
    cleaned = table.clean("delete", as_of=20, assume_exclusive=True, confirm=lambda plan: print(plan.victims))
    assert_type(cleaned.victims, tuple[acidctl.CleanedEntry, ...])
    assert_type(table.plan_clean(as_of=20, assume_exclusive=True), acidctl.CleanPlan)
    assert_type(acidctl.read_file(url), acidctl.DataFile)
    table.ls(**acidctl.LsOptions(as_of=5, rows=True).keywords())
    # A misspelt keyword is found before the program runs: mypy warns where an ignored error is none.
    table.ls(validtxn="x")  # type: ignore[call-arg]
    table.compact("major", assume_comitted=True)  # type: ignore[call-arg]
    for part in done.partitions:
        assert_type(part.outputs, tuple[str, ...])
    try:
        table.ls()
    except acidctl.AcidctlError as error:
        assert_type(error.hint, str | None)
        assert_type(error.exit_code, acidctl.ExitCode)
        return int(error.exit_code)
    return 0
