"""`report.html`: one file that shows a run from its records, readable from disk without a network."""

from expert_worker.report.write import refresh, write_index, write_report

__all__ = ["refresh", "write_index", "write_report"]
