"""Tables as an analysis reads them: HDF5 with h5py, Parquet with pyarrow, both with pandas.

check_tables.py HDF5 [PARQUET] --table NAME --rows N [--swmr]

Both files must hold the same columns with the same types and values, with units and origin, and as many rows as
asked for. With --swmr the first file is one that a killed run left, and only that is read.
"""

import argparse
import json
import sys

import h5py
import numpy as np


def hdf5(path, table, **how):
    with h5py.File(path, "r", **how) as f:
        group = f[table]
        columns = {name: group[name][:] for name in group}
        units = {name: group[name].attrs.get("units", "") for name in group}
        meanings = {name: group[name].attrs["long_name"] for name in group}
        facts = {name: f.attrs[name] for name in f.attrs}
    return columns, units, meanings, facts


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("hdf5")
    parser.add_argument("parquet", nargs="?")
    parser.add_argument("--table", required=True)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--swmr", action="store_true")
    given = parser.parse_args()

    columns, units, meanings, facts = hdf5(given.hdf5, given.table, swmr=given.swmr)
    lengths = {len(values) for values in columns.values()}
    assert lengths == {given.rows}, lengths
    assert facts["format"] == "fullcount/tables/1", facts
    assert facts["creator"].startswith("fullcount ")
    if given.parquet is None:
        return

    import pandas as pd
    import pyarrow.parquet as pq

    table = pq.read_table(given.parquet)
    assert table.num_rows == given.rows
    assert set(table.column_names) == set(columns), set(table.column_names) ^ set(columns)
    for name, values in columns.items():
        other = table[name].to_numpy()
        assert other.dtype == values.dtype, (name, other.dtype, values.dtype)
        # Bits, so that a NaN would be seen as well.
        assert other.tobytes() == values.tobytes(), name
    said = {key.decode(): value.decode() for key, value in pq.read_metadata(given.parquet).metadata.items()}
    for name in ("format", "creator", "detector", "configuration"):
        assert said[name] == facts[name], name
    assert int(said["epoch_ns"]) == facts["epoch_ns"]
    described = json.loads(said["columns"])
    assert {name: c["units"] for name, c in described.items()} == units
    assert {name: c["long_name"] for name, c in described.items()} == meanings

    # As the document does it.
    with h5py.File(given.hdf5) as f:
        frame = pd.DataFrame({column: f[given.table][column][:] for column in f[given.table]})
    other = pd.read_parquet(given.parquet)
    pd.testing.assert_frame_equal(frame[sorted(frame)], other[sorted(other)])
    time = next(name for name in columns if name.endswith("_ps") or name == "time_ns")
    assert columns[time].dtype == np.int64
    dates = pd.to_datetime(facts["epoch_ns"] + frame[time] // 1000)
    assert len(dates) == given.rows


if __name__ == "__main__":
    sys.exit(main())
