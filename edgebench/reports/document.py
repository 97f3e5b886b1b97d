"""The JSON view: one document that scripts read. Missing and infinite figures are null, never 0."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from edgebench.codec import to_plain
from edgebench.reports.budget import Judgement, Miss, judge
from edgebench.reports.shown import latest
from edgebench.reports.summary import Row, summarize_all
from edgebench.store import RunInfo
from edgebench.types import Artifact, Divergence, Evaluation, Record

SCHEMA = 1


def to_document(run: RunInfo | None, records: Sequence[Record], judgement: Judgement | None = None) -> str:
    """`{"schema", "run", "records", "budget"}` as indented JSON text; an estimate is `{"value", "low", "high", "n"}`.

    `records` are all, also those that a later plan took the place of. `budget` is null where no limit is set, and else
    has its `misses`, an empty list when every limit is met; without a `judgement` the run's budget is judged by the
    latest records.
    """
    if judgement is None and run and run.budget:
        judgement = judge(summarize_all(latest(records)), run.budget)
    document = {
        "schema": SCHEMA,
        "run": _run(run),
        "records": [_record(row) for row in summarize_all(records)],
        "budget": _budget(judgement) if judgement else None,
    }
    return json.dumps(_without_infinities(document), indent=2, allow_nan=False) + "\n"


def _budget(judgement: Judgement) -> dict[str, Any]:
    return {
        "misses": [_miss(miss) for miss in judgement.misses],
        "judged": judgement.judged,
        "not_measured": judgement.not_measured,
    }


def _miss(miss: Miss) -> dict[str, Any]:
    return {
        "cell": miss.cell,
        "limit": miss.limit,
        "allowed": miss.allowed,
        "found": miss.found,
        "message": miss.message,
    }


def _run(run: RunInfo | None) -> dict[str, Any]:
    if run is not None:
        plain: dict[str, Any] = to_plain(run)
        return plain
    return dict.fromkeys(("name", "command", "created_at", "model", "data", "environment", "budget")) | {"cautions": []}


def _record(row: Row) -> dict[str, Any]:
    record = row.record
    return {
        "cell": record.cell,
        "status": record.status.value,
        "stage": record.stage,
        "reason": record.reason,
        "model": record.model,
        "recipe": record.recipe,
        "format": row.format,
        "precision": row.precision,
        "size_bytes": row.size_bytes,
        "device": record.device,
        "runtime": record.runtime,
        "delegate": record.delegate,
        "threads": record.threads,
        "batch": record.batch,
        "origin": row.origin,
        "runner": record.measurement.runner if record.measurement else None,
        "at": record.at,
        "latency": to_plain(row.latency) if row.latency else None,
        "tool_mean_ms": to_plain(row.tool_mean_ms),
        "speed_up": to_plain(row.speed_up),
        "memory": {"peak_rss_bytes": row.peak_rss_bytes} if row.latency else None,
        "trust": {"verdict": row.trust.verdict, "cautions": to_plain(row.cautions)} if row.trust else None,
        "cautions": to_plain(row.cautions),
        "evaluation": _evaluation(record.evaluation) if record.evaluation else None,
        "artifact": _artifact(record.artifact) if record.artifact else None,
        "environment": record.environment,
    }


def _evaluation(evaluation: Evaluation) -> dict[str, Any]:
    split = evaluation.split
    return {
        "task": evaluation.task,
        "n": evaluation.n,
        "metrics": {name: to_plain(estimate) for name, estimate in evaluation.metrics.items()},
        "baseline_metrics": {name: to_plain(estimate) for name, estimate in evaluation.baseline_metrics.items()},
        "drop_pp": to_plain(evaluation.drop_pp),
        "drop_p_value": evaluation.drop_p_value,
        **(_divergence(evaluation.divergence) or dict.fromkeys(("agreement", "agreement_clear", "outputs"))),
        "split": {
            "conversion": _divergence(split.conversion),
            "quantization": _divergence(split.quantization),
            "device": _divergence(split.device),
        },
    }


def _divergence(divergence: Divergence | None) -> dict[str, Any] | None:
    if divergence is None:
        return None
    return {
        "agreement": to_plain(divergence.agreement),
        "agreement_clear": to_plain(divergence.agreement_clear),
        "outputs": {name: to_plain(output) for name, output in divergence.outputs.items()},
    }


def _artifact(artifact: Artifact) -> dict[str, Any]:
    return {
        "files": artifact.files,
        "sha256": artifact.sha256,
        "batch": artifact.batch,
        "route": artifact.route,
        "tool_versions": artifact.tool_versions,
        "conversion_s": artifact.conversion_s,
        "conversion_peak_rss_bytes": artifact.conversion_peak_rss_bytes,
        "census": to_plain(artifact.census),
        "calibration_sha256": artifact.calibration_sha256,
        "edgetpu": {**to_plain(artifact.edgetpu), "share": artifact.edgetpu.share} if artifact.edgetpu else None,
    }


def _without_infinities(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _without_infinities(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_infinities(item) for item in value]
    return value
