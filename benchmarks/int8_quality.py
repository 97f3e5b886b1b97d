"""What post-training int8 reaches on EfficientNet-Lite0, checked against the bounds that we promise.

    python benchmarks/int8_quality.py [RUN]

RUN is a run of reports/efficientnet-lite0/matrix.yaml. For TFLite and ONNX each: full-int8 precision, top-1 agreement
with the float network >= .87, at most 5.3 MB, SQNR of the logits >= 19 dB as the libraries make it (`-plain`) and
>= 25 dB with bias correction, which may take a minute. For speed see int8_speed.py.
"""

from __future__ import annotations

import sys
from pathlib import Path

from edgebench.reports.summary import Row, summarize_all
from edgebench.store import Store
from edgebench.types import Precision

MIN_AGREEMENT = 0.87
MIN_SQNR_DB = {"int8-plain": 19.0, "int8": 25.0}
MAX_SIZE_BYTES = 5_300_000
MAX_CORRECTION_S = 60.0


def main(run: Path) -> int:
    with Store.open(run / "records.sqlite", read_only=True) as store:
        rows = {row.record.recipe: row for row in summarize_all(store.records())}
    missed = 0
    for format in ("tflite", "onnx"):
        for kind, min_sqnr_db in MIN_SQNR_DB.items():
            recipe = f"{format}-{kind}"
            bounds = _bounds(rows[recipe], min_sqnr_db)
            if kind == "int8":
                correction_s = _conversion_s(rows[recipe]) - _conversion_s(rows[f"{recipe}-plain"])
                text = f"bias correction took {correction_s:.1f} s <= {MAX_CORRECTION_S:.0f} s"
                bounds[text] = correction_s <= MAX_CORRECTION_S
            for text, holds in bounds.items():
                print(f"{recipe:18}{'holds ' if holds else 'MISSED'} {text}")
                missed += not holds
    return int(missed > 0)


def _bounds(row: Row, min_sqnr_db: float) -> dict[str, bool]:
    agreement, sqnr_db, size_bytes = row.agreement, row.sqnr_db, row.size_bytes
    if agreement is None or sqnr_db is None or size_bytes is None:
        return {f"{row.record.status}: {row.record.reason}": False}
    return {
        f"precision {row.precision}": row.precision is Precision.FULL_INT8,
        f"agreement {agreement.value:.3f} [{agreement.low:.3f}, {agreement.high:.3f}] >= {MIN_AGREEMENT}": (
            agreement.value >= MIN_AGREEMENT
        ),
        f"SQNR {sqnr_db:.1f} dB >= {min_sqnr_db}": sqnr_db >= min_sqnr_db,
        f"{size_bytes / 1e6:.2f} MB <= {MAX_SIZE_BYTES / 1e6}": size_bytes <= MAX_SIZE_BYTES,
    }


def _conversion_s(row: Row) -> float:
    artifact = row.record.artifact
    return artifact.conversion_s or 0.0 if artifact else 0.0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "reports/efficientnet-lite0")))
