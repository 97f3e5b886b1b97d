"""What plain post-training int8 reaches on EfficientNet-Lite0, checked against the bounds that we promise.

    python benchmarks/int8_quality.py [RUN]

RUN is a run of reports/efficientnet-lite0/matrix.yaml. Bounds for tflite-int8 and onnx-int8 each: full-int8 precision,
top-1 agreement with the float network >= .87, SQNR of the logits >= 19 dB, at most 5.3 MB, and p50 at
least 1.8 times faster than fp32 in the same runtime (on a CPU with AVX-512 VNNI).
"""

from __future__ import annotations

import statistics
import sys
from pathlib import Path

from edgebench.reports.summary import Row, summarize_all
from edgebench.store import Store
from edgebench.types import Precision

MIN_AGREEMENT = 0.87
MIN_SQNR_DB = 19.0
MAX_SIZE_BYTES = 5_300_000
MIN_SPEED_UP = 1.8


def main(run: Path) -> int:
    with Store.open(run / "records.sqlite", read_only=True) as store:
        rows = {row.record.recipe: row for row in summarize_all(store.records())}
    missed = 0
    for format in ("tflite", "onnx"):
        row = rows[f"{format}-int8"]
        agreement, sqnr_db, size_bytes = row.agreement, row.sqnr_db, row.size_bytes
        if agreement is None or sqnr_db is None or size_bytes is None:
            print(f"{format}-int8: {row.record.status}, {row.record.reason}")
            missed += 1
            continue
        speed_up = p50_ns(rows[f"{format}-fp32"]) / p50_ns(row)
        bounds = {
            f"precision {row.precision}": row.precision is Precision.FULL_INT8,
            f"agreement {agreement.value:.3f} [{agreement.low:.3f}, {agreement.high:.3f}] >= {MIN_AGREEMENT}": (
                agreement.value >= MIN_AGREEMENT
            ),
            f"SQNR {sqnr_db:.1f} dB >= {MIN_SQNR_DB}": sqnr_db >= MIN_SQNR_DB,
            f"{size_bytes / 1e6:.2f} MB <= {MAX_SIZE_BYTES / 1e6}": size_bytes <= MAX_SIZE_BYTES,
            f"p50 {speed_up:.2f} x faster than fp32 >= {MIN_SPEED_UP}": speed_up >= MIN_SPEED_UP,
        }
        for text, holds in bounds.items():
            print(f"{format}-int8: {'holds ' if holds else 'MISSED'} {text}")
            missed += not holds
        print(f"{format}-int8: latency verdict {row.trust.verdict if row.trust else 'none'}")
    return int(missed > 0)


def p50_ns(row: Row) -> float:
    measurement = row.record.measurement
    return statistics.median(ns for round_ in measurement.rounds for ns in round_.latencies_ns) if measurement else 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "reports/efficientnet-lite0")))
