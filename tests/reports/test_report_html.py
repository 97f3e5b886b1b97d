"""The HTML page: one file, no script, well formed, the same at each rendering, and safe with hostile names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser

import canned
import pytest

from edgebench.reports import render
from edgebench.reports.charts import axis_limit_ms
from edgebench.store import RunInfo
from edgebench.types import Record

VOID = {"meta", "br"}


class Page(HTMLParser):
    """What a browser would see: elements in order, their attributes, and whether each is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.texts: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"not closed: {self._open}"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def values(self, name: str) -> list[str]:
        return [value or "" for key, value in self.attributes if key == name]


def page(run: RunInfo | None, records: Sequence[Record]) -> Page:
    return Page(render(run, records, "html"))


def test_the_page_is_the_same_at_each_rendering_whatever_matplotlib_is_told() -> None:
    import matplotlib

    once = render(canned.run(), canned.records(), "html")
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red", "text.usetex": True, "svg.hashsalt": "x"}):
        assert render(canned.run(), canned.records(), "html") == once


def test_the_page_needs_no_script_and_nothing_from_elsewhere() -> None:
    text = render(canned.run(), canned.records(), "html")
    found = Page(text)
    assert not {"script", "link", "img", "iframe", "object"} & set(found.tags)
    assert not [name for name, _ in found.attributes if name.startswith("on") or name == "src"]
    assert set(re.findall(r"https?://[^\s\"'<>]+", text)) == {
        "http://www.w3.org/2000/svg",
        "http://www.w3.org/1999/xlink",
    }
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#[\w-]+\)", "", text)


def test_ids_are_unique_and_every_reference_finds_its_own() -> None:
    found = page(canned.run(), canned.records())
    ids = found.values("id")
    assert len(ids) == len(set(ids))
    references = [value[1:] for name in ("href", "xlink:href") for value in found.values(name)]
    references += [value[5:-1] for value in found.values("clip-path")]
    references += [part for value in found.values("aria-labelledby") for part in value.split()]
    assert references
    assert set(references) <= set(ids)


def test_each_picture_has_a_title_and_a_description_in_words() -> None:
    text = render(canned.run(), canned.records(), "html")
    pictures = re.findall(r"<svg .*?</svg>", text, flags=re.DOTALL)
    assert len(pictures) == 2 + 7
    for picture in pictures:
        assert 'role="img"' in picture
        assert re.search(r"<title id=\"[\w-]+\">[^<]+</title><desc id=\"[\w-]+\">[^<]+</desc>", picture)
    assert "tflite-int8: 5.27, 0.741" in pictures[0]
    assert "tflite-int16x8: 5.40, 0.751, on the front" in pictures[0]


def test_the_page_answers_what_where_when_with_what_and_how_again() -> None:
    text = " ".join(page(canned.run(), canned.records()).texts)
    for told in (
        "zoo:efficientnet-lite0",
        "host, virtual-phone (simulated)",
        canned.AT,
        "litert 2.3.0, onnxruntime 2.3.0",
        "Xeon 8481C",
        "bright images will clip",
        "failed at convert: quantizing to fp16 was ended by SIGSEGV",
        "tflite-dynamic-int8 (latency is noisy)",
        "litert-torch + ai-edge-quantizer (litert-torch 0.10.0, ai-edge-quantizer 0.10.0)",
        "edgebench convert+measure zoo:efficientnet-lite0 --data 'my photos/' --recipe tflite-int8",
        "[417] 19.4 dB",
    ):
        assert told in text


def test_without_labels_the_charts_show_agreement_and_without_decisions_sqnr() -> None:
    assert "size, MB against agreement with the baseline" in render(None, canned.without_labels(), "html")
    finite = canned.record(
        "int8", artifact=canned.records()[1].artifact, evaluation=canned.evaluation(None, 30.0, None)
    )
    same = replace(canned.records()[5], cell="same")
    assert same.evaluation is not None
    same = replace(same, evaluation=replace(same.evaluation, metrics={}, task=None, drop_pp=None))
    text = render(None, [finite, same], "html")
    assert "size, MB against SQNR, dB" in text
    assert "onnx-fp32 (∞)" in text


def test_a_file_is_drawn_once_against_its_size_however_often_it_was_measured() -> None:
    again = [replace(canned.records()[1], cell=f"threads {n}", threads=n) for n in (1, 2, 4)]
    text = render(None, [*again, canned.records()[8]], "html")
    size, *_ = re.findall(r"<svg .*?</svg>", text, flags=re.DOTALL)
    assert size.count("5.27, 0.741") == 1
    elsewhere = replace(again[2], evaluation=canned.evaluation(0.7, 20.0, 0.9))
    size, *_ = re.findall(r"<svg .*?</svg>", render(None, [*again[:2], elsewhere], "html"), flags=re.DOTALL)
    assert size.count("5.27, 0.7") == 2


def test_a_missing_latency_chart_says_why() -> None:
    text = render(None, canned.records(), "html")
    assert "No chart of p50 latency, ms on virtual-phone: simulated, not measured." in text
    bare = [replace(record, evaluation=None) for record in canned.records()[:2]]
    assert "No chart of p50 latency, ms on host: nothing says how good the files are." in render(None, bare, "html")


def test_hostile_names_stay_text() -> None:
    run, records = canned.hostile()
    text = render(run, records, "html")
    found = Page(text)
    assert "script" not in found.tags
    assert "b" not in found.tags
    assert "<script" not in text
    assert "alert('x')" in "".join(found.texts)
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_a_control_character_in_a_metric_is_drawn_as_text() -> None:
    record = canned.records()[1]
    assert record.evaluation is not None
    named = replace(record.evaluation, metrics={"a\x1b$^": canned.estimate(0.5, 0.1)})
    text = render(None, [replace(record, evaluation=named)], "html")
    assert "a\\x1b$^" in text
    assert "\x1b" not in text


@pytest.mark.parametrize("records", [(), canned.records()[4:5], canned.records()[9:]])
def test_a_run_without_a_single_measurement_has_a_page(records: tuple[Record, ...]) -> None:
    assert page(canned.run(), records).tags
    assert page(None, records).tags


def test_a_page_of_many_samples_stays_small() -> None:
    huge = replace(canned.records()[1], measurement=canned.measured(0.05, n=10_000))
    assert len(render(canned.run(), [huge], "html")) < 100_000


def test_an_outlier_does_not_flatten_a_chart_of_rounds_and_is_counted() -> None:
    record = canned.records()[1]
    assert record.measurement is not None
    first, *others = record.measurement.rounds
    slow = replace(first, latencies_ns=(*first.latencies_ns[:-1], 93_200_000))
    spiky = replace(record, measurement=replace(record.measurement, rounds=(slow, *others)))
    assert axis_limit_ms(spiky.measurement.rounds) < 5  # type: ignore[union-attr]
    text = render(None, [spiky], "html")
    assert re.search(r"▲ above the axis: \d+ of 300 runs, the slowest at 93\.2 ms", text)
