"""Reads the exports of a folder with libraries of others: HdrHistogram, pandas, jsonschema, resvg."""

import json
import pathlib
import sys

import jsonschema
import pandas
import resvg_py
from hdrh.histogram import HdrHistogram
from hdrh.log import HistogramLogReader

folder, schema = map(pathlib.Path, sys.argv[1:])

result = json.loads((folder / "latency.json").read_text())
jsonschema.validate(result, json.loads(schema.read_text()))
found = [row["distribution"] for row in result["results"]]

log = HistogramLogReader(str(folder / "latency.hlog"), HdrHistogram(1, 10**13, 3))
histograms = []
while (histogram := log.get_next_interval_histogram()) is not None:
    histograms.append(histogram)
assert len(histograms) == len(found), (len(histograms), len(found))
for histogram, row in zip(histograms, found):
    assert histogram.get_total_count() == row["count"], (histogram.get_tag(), row["count"])
    p99 = histogram.get_value_at_percentile(99)
    assert abs(p99 - row["p99_ns"]) <= 0.01 * row["p99_ns"], (histogram.get_tag(), p99, row)

table = pandas.read_csv(folder / "pingpong.csv")
measured = table[table.status == "measured"]
assert measured.p50_ns.dtype == float and measured.p50_ns.gt(0).all()
assert measured.p50_ns.le(measured.p50_ns_max).all()

drawings = sorted(folder.glob("*.svg"))
for drawing in drawings:
    text = drawing.read_text()
    assert "var(" not in text, drawing
    picture = bytes(resvg_py.svg_to_bytes(svg_string=text))
    # An empty picture of this size takes some hundred bytes.
    assert picture.startswith(b"\x89PNG") and len(picture) > 5_000, (drawing, len(picture))

print(f"{len(histograms)} histograms, {len(table)} rows, 1 file, {len(drawings)} drawings")
