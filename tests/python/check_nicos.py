#!/usr/bin/env python3
"""Checks files that were made of run starts as NICOS sends them, with h5py and scippnexus.

    check_nicos.py VECTOR FILE [VECTOR FILE ...]

VECTOR is one of vectors/nicos, FILE what the writer made of it. Every group and dataset of the structure is there with its
attributes, but for what `expected` has warnings about; links lead to what they name; what a component depends on leads to an
end, each step with a vector, a kind and units; scippnexus loads the whole entry, each component as what it is but for those
that `plain` names, and finds the positions. Rules: docs/formats/nexus.md sections 5 and 7. Ends with status 1 and a sentence at the first fault.
"""
import json
import re
import sys
import warnings

import h5py
import numpy as np
import scipp as sc
import scippneutron  # noqa: F401  (registers the graphs that compute positions)
import scippnexus as snx


def expect(ok, what):
    if not ok:
        sys.exit(f"fault: {what}")


def text(value):
    value = value[()] if isinstance(value, h5py.Dataset) else value
    return value.decode() if isinstance(value, bytes) else value


def class_of(node):
    attributes = node.get("attributes", {})
    if isinstance(attributes, dict):
        return attributes.get("NX_class")
    return next((a.get("values", a.get("value")) for a in attributes if a["name"] == "NX_class"), None)


def walk(file, nodes, path):
    """Each group of the structure has its class, each dataset its values, each stream its columns and where it is from."""
    for node in nodes:
        if isinstance(node, str):
            continue
        config = node.get("config") or {}
        if node.get("type") == "group":
            here = f"{path}/{node['name']}"
            expect(isinstance(file.get(here), h5py.Group), f"{here}: a group")
            if given := class_of(node):
                expect(text(file[here].attrs["NX_class"]) == given, f"{here}: {given}")
            walk(file, node.get("children", []), here)
        elif node["module"] == "dataset":
            here = f"{path}/{config['name']}"
            expect(isinstance(file.get(here), h5py.Dataset), f"{here}: a dataset")
            values = config.get("values", config.get("value"))
            found = file[here]
            if isinstance(values, list) and values and h5py.check_string_dtype(found.dtype) is None:
                same = np.allclose(found[()], np.array(values, dtype=float), equal_nan=True)
                expect(same, f"{here}: {found[()]}")
            elif isinstance(values, list):
                expect(len(found) == len(values), f"{here}: {found[()]}")
                expect([text(v) for v in found[()]] == values, f"{here}: {found[()]}")
            elif isinstance(values, str) and not values.startswith("$"):
                expect(text(found) == values, f"{here}: {text(found)!r}")
            elif isinstance(values, (int, float)):
                expect(found[()] == values, f"{here}: {found[()]}")
        elif node["module"] not in ("link", "mdat"):
            group = file[path]
            expect(len(group) > 0, f"{path}: columns of {node['module']}")
            expect("topic" in group.attrs and "source" in group.attrs, f"{path}: where it is from")


def chain(file, path):
    """Steps of what the component depends on."""
    at, to, steps = path, text(file[f"{path}/depends_on"]), 0
    while to != ".":
        # Seen from the component, then from the group of the step before.
        at = to if to.startswith("/") else f"{at if steps == 0 else at.rsplit('/', 1)[0]}/{to}"
        expect(at in file, f"{path}: {at} is not there")
        step = file[at].attrs
        expect(text(step["transformation_type"]) in ("translation", "rotation"), f"{at}: kind")
        expect(np.asarray(step["vector"]).dtype.kind == "f" and len(step["vector"]) == 3, f"{at}: {step['vector']!r} is a vector")
        expect(text(step["units"]) in ("m", "deg", "degrees"), f"{at}: {step['units']}")
        to, steps = text(step["depends_on"]) if "depends_on" in step else ".", steps + 1
        expect(steps < 20, f"{path}: it has an end")
    return steps


def logs(file, path, found):
    """Names of logs of one number each that have two rows."""
    for name, item in file[path].items():
        if isinstance(item, h5py.Group) and name != "fullcount":
            here = f"{path}/{name}"
            if text(item.attrs.get("NX_class", "")) == "NXlog" and "value" in item and "time" in item:
                expect(len(item["value"]) == len(item["time"]), f"{here}: rows")
                found[here] = len(item["value"])
            logs(file, here, found)
    return found


def check(vector, path):
    with open(vector, encoding="utf-8") as source:
        told = json.load(source)
    structure, expected = told["start"]["nexus_structure"], told["expected"]
    with h5py.File(path) as file:
        walk(file, structure["children"], "")
        for name, target in expected["links"].items():
            expect(name in file and file[name] == file[target], f"{name} is {target}")
        for component, steps in expected["chains"].items():
            expect(chain(file, component) == steps, f"{component}: {chain(file, component)} steps")
        rows = logs(file, "/entry", {})
        expect(len(rows) >= 5 and sum(n >= 2 for n in rows.values()) >= len(rows) - 2, f"{path}: rows of logs {rows}")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        loaded = snx.load(path, root="entry")
    for name in ("title", "instrument", "sample"):
        expect(name in loaded, f"{path}: scippnexus has {name}")
    # What scippnexus takes for a plain group, since it is not what its class stands for.
    failed = [re.match(r"Failed to load (\S+) as", str(w.message)) for w in said]
    failed = sorted({found[1] for found in failed if found})
    expect(failed == expected["plain"], f"{path}: plain groups to scippnexus: {failed}")
    for component, place in expected["positions"].items():
        name = component.rsplit("/", 1)[1]
        found = snx.compute_positions(sc.DataGroup({name: loaded["instrument"][name]}))[name]
        events = [v for v in found.values() if isinstance(v, sc.DataArray) and "position" in v.coords]
        expect(len(events) == 1, f"{component}: events have positions")
        first = events[0].coords["position"].values.reshape(-1, 3)[0]
        expect(np.allclose(first, place), f"{component}: its first pixel is at {first}")


def main():
    for vector, path in zip(sys.argv[1::2], sys.argv[2::2]):
        check(vector, path)


main()
