#!/usr/bin/env python3
"""Decodes every message of a folder with ess-streaming-data-types, as control systems do.

    check_answers.py FOLDER

One file a message, *.bin. Each must be of a schema that the package reads, and no text of those that the file writer and
`fullcount send` make may be missing: the package calls decode() on it. Prints how many there were of each schema, as JSON.
"""
import json
import sys
from pathlib import Path

import numpy as np

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # some decoders predate numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
from streaming_data_types import DESERIALISERS
from streaming_data_types.utils import get_schema

# Fields that the package itself gives as None where the sender said nothing.
TEXTS = {
    "answ": ("service_id", "job_id", "command_id", "message"),
    "wrdn": ("service_id", "job_id", "file_name", "metadata", "message"),
    "x5f2": ("software_name", "software_version", "service_id", "host_name", "status_json"),
    "pl72": ("job_id", "filename", "run_name", "nexus_structure", "service_id", "instrument_name", "control_topic"),
    "6s4t": ("job_id", "run_name", "service_id", "command_id"),
}
JSON = {"wrdn": "metadata", "x5f2": "status_json", "pl72": "nexus_structure"}
FILLED = {"answ": ("service_id", "message"), "wrdn": TEXTS["wrdn"], "x5f2": TEXTS["x5f2"]}


def main():
    counts = {}
    for path in sorted(Path(sys.argv[1]).glob("*.bin")):
        value = path.read_bytes()
        schema = get_schema(value)
        try:
            message = DESERIALISERS[schema](value)
            for field in TEXTS.get(schema, ()):
                text = getattr(message, field)
                assert isinstance(text, str), f"{field} is {text!r}"
                assert text or field not in FILLED.get(schema, ()), f"{field} is empty"
            text = getattr(message, JSON[schema]) if schema in JSON else ""
            # A start that takes its structure from a template has none, and is echoed as it came.
            if schema in JSON and (text or schema != "pl72"):
                json.loads(text)
        except Exception as error:
            raise SystemExit(f"{path.name} ({schema}): {error!r}")
        counts[schema] = counts.get(schema, 0) + 1
    print(json.dumps(counts))


main()
