"""Reads an OpenMetrics text with the parser of Prometheus' own Python client; prints it as JSON."""

import json
import sys

from prometheus_client.openmetrics.parser import text_string_to_metric_families

text = sys.stdin.buffer.read().decode("utf-8")
families = [
    {
        "name": family.name,
        "type": family.type,
        "unit": family.unit,
        "samples": [
            # The parser has made floats of values; the text has them whole.
            {"name": sample.name, "labels": sample.labels, "value": sample.value}
            for sample in family.samples
        ],
    }
    for family in text_string_to_metric_families(text)
]
json.dump(families, sys.stdout)
