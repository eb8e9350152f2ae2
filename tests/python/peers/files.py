#!/usr/bin/env python3
"""What is in the files: one writer of many files, and a run for each scenario, all at once.

    files.py BROKERS FOLDER

Topics pool2, idle and inst1, and one or more for each scenario's data. Each run but one is in the past: its messages have
their own times as Kafka times. Prints what went wrong in each, as JSON. What the scenarios stand for is in
crates/fullcount/tests/write_peers.rs.
"""
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import h5py
import numpy as np
import scippnexus
import streaming_data_types as sdt
from streaming_data_types.alarm_al00 import Severity
from streaming_data_types.epics_connection_ep01 import ConnectionInfo
from streaming_data_types.fbschemas.logdata_f142.AlarmSeverity import AlarmSeverity
from streaming_data_types.fbschemas.logdata_f142.AlarmStatus import AlarmStatus

from facility import POOLS, Facility, Run, dataset, entry, group, is_schema, module, of, report, same, text

MS = 1_000_000
# Runs of the past begin here; 2020-02-29T18:13:20Z.
PAST_MS = 1_583_000_000_000
# Between two messages of the past: less than the writer's leeway.
STEP_MS = 300
FEATURES = 2**63 + 12_345_678_901


def f144_of(topic, source, **config):
    return module("f144", topic=topic, source=source, **config)


def log(name, *modules):
    return group(name, "NXlog", *modules)


def main():
    facility = Facility(*sys.argv[1:3], POOLS[1])

    def values(topic, source, pairs):
        """f144 messages of (ms, value); their Kafka times are their own."""
        for at_ms, value in pairs:
            facility.send(topic, sdt.serialise_f144(source, value, at_ms * MS), at_ms * MS)

    def static():
        location = (
            ("units", "m", "string"), ("transformation_type", "translation", "string"),
            ("vector", [0.0, 0.0, -1.0], "double"), ("vector2", [[3, 2, -1], [-1, -2, -3]], "double"),
            ("depends_on", ".", "string"),
        )
        monitor = group(
            "monitor1", "NXmonitor", dataset("detector_id", 11, "int64"),
            group("transformations", "NXtransformations", dataset("location", 9.5, "double", *location)),
        )
        return [
            dataset("duration", [61.5], "float"), dataset("end_time", "2020-02-29T01:03:04", "string"),
            dataset("start_time", "2020-02-29T01:02:03", "string"), dataset("vector1", [1, 2, 3], "int32"),
            dataset("vector2", [[1, 2, 3], [-1, -2, -3]], "int32"), dataset("features", [FEATURES], "uint64"),
            group("instrument", "NXinstrument", monitor), group("user_1", "NXuser", dataset("affiliation", "a university", "string")),
        ]

    def static_data_reach_the_file():
        run = Run(facility, "static", entry(*static()), PAST_MS, PAST_MS + 1)
        facility.historical(run)
        with h5py.File(run.path) as file:
            assert not file.swmr_mode
            assert text(file["entry/start_time"]) == "2020-02-29T01:02:03"
            assert text(file["entry/end_time"]) == "2020-02-29T01:03:04"
            assert text(file["entry/user_1/affiliation"]) == "a university"
            same(file["entry/vector1"], [1, 2, 3], "vector1")
            same(file["entry/vector2"], [[1, 2, 3], [-1, -2, -3]], "vector2")
            same(file["entry/duration"], [61.5], "duration")
            assert file["entry/features"][0] == FEATURES
            attributes = file["entry/instrument/monitor1/transformations/location"].attrs
            same(attributes["vector"], [0, 0, -1], "vector")
            same(attributes["vector2"], [[3, 2, -1], [-1, -2, -3]], "vector2")
            assert attributes["transformation_type"] == "translation"
        assert os.stat(run.path).st_mode & 0o222 == 0, "nobody may write it any more"

    def links_lead_where_they_should():
        structure = entry(
            *static(), module("link", name="to_features", source="features"),
            module("link", name="to_transformations", source="/entry/instrument/monitor1/transformations"),
            group("more", "NXcollection", module("link", name="up", source="../features"),
                  module("link", name="deep", source="../instrument/monitor1/detector_id"),
                  module("link", name="nowhere", source="../not_there")),
        )
        run = Run(facility, "links", structure, PAST_MS, PAST_MS + 1)
        facility.historical(run)
        with h5py.File(run.path) as file:
            assert file["entry/to_features"][0] == file["entry/more/up"][0] == FEATURES
            assert file["entry/more/deep"][()] == 11
            same(file["entry/to_transformations/location"].attrs["vector"], [0, 0, -1], "through a group")
            # Readers fail on a link that leads nowhere: there is none.
            assert "nowhere" not in list(file["entry/more"])
        answer = facility.answer(run.job).said.message
        assert "not_there" in answer, answer

    def links_to_streams_have_their_data():
        topic = facility.topic("linked")
        values(topic, "delay", [(PAST_MS + n * STEP_MS, float(n)) for n in range(4)])
        structure = entry(
            group("chopper", "NXdisk_chopper", log("delay", f144_of(topic, "delay"))),
            group("links", "NXcollection", module("link", name="value", source="/entry/chopper/delay/value"),
                  module("link", name="time", source="../chopper/delay/time")),
        )
        run = Run(facility, "linked", structure, PAST_MS, PAST_MS + 10 * STEP_MS)
        facility.historical(run)
        with h5py.File(run.path) as file:
            assert len(file["entry/links/value"]) == 4
            for name in ("value", "time"):
                same(file[f"entry/links/{name}"], file[f"entry/chopper/delay/{name}"], name)

    def a_large_start_is_taken():
        # Their echoes are too large for the control topic: that is said, no more.
        runs = [Run(facility, f"large_{n}", entry(*static()), PAST_MS, PAST_MS + 1) for n in range(2)]
        for run, padding in zip(runs, (2**20, 2**24)):
            run.structure += " " * padding
            facility.start(run)
        for run in runs:
            facility.started(run)
            facility.done(run)
            with h5py.File(run.path) as file:
                assert text(file["entry/start_time"]) == "2020-02-29T01:02:03"

    def start_and_end_are_dates():
        inner = group("inner", "NXcollection", module("mdat", items=["start_time", "end_time"]))
        run = Run(facility, "dates", entry(module("mdat", items=["start_time", "end_time"]), inner), PAST_MS, PAST_MS + 10_000)
        facility.historical(run)
        begin = datetime(2020, 2, 29, 18, 13, 20, tzinfo=timezone.utc)
        with h5py.File(run.path) as file:
            for place in ("entry", "entry/inner"):
                for name, wanted in (("start_time", begin), ("end_time", begin + timedelta(seconds=10))):
                    found = datetime.strptime(text(file[f"{place}/{name}"]), "%Y-%m-%dT%H:%M:%S.%fZ")
                    assert found.replace(tzinfo=timezone.utc) == wanted, f"{place}/{name}: {found}"

    def events_of_live_data_are_all_there():
        events, motion = facility.topic("live_events", 3), facility.topic("live_motion")
        structure = entry(
            module("dataset", name="title", value="A title of live data", type="string"),
            group("detector", "NXdata", module("ev44", topic=events, source="bank", cue_interval="3")),
            log("motion", f144_of(motion, "axis", dtype="double")),
        )
        run = Run(facility, "live", structure, int(time.time()) * 1000)
        facility.start(run)
        facility.started(run)
        times = []
        for n in range(30):
            times.append(time.time_ns())
            offsets, pixels = [10 * i + 50 * n for i in range(5)], [i + 5 * n for i in range(5)]
            facility.send(events, sdt.serialise_ev44("bank", n, [times[-1]], [0], offsets, pixels), key="a")
            facility.send(motion, sdt.serialise_f144("axis", n, times[-1]), key="b")
            facility.flush()
            time.sleep(0.01)
        facility.stop(run)
        facility.done(run)
        with h5py.File(run.path) as file:
            detector, axis = file["entry/detector"], file["entry/motion"]
            assert text(file["entry/title"]) == "A title of live data"
            # At most one a flush: how many there are is a matter of time.
            cues = detector["cue_index"][:]
            assert len(cues) >= 1 and cues[-1] == 149, f"cues of a text that is a number: {list(cues)}"
            same(detector["event_time_zero"], times, "event_time_zero")
            same(detector["event_index"], [5 * n for n in range(30)], "event_index")
            same(detector["event_id"], range(150), "event_id")
            same(detector["event_time_offset"], [10 * n for n in range(150)], "event_time_offset")
            same(axis["time"], times, "time")
            same(axis["value"], range(30), "value")

    def messages_of_all_partitions_are_there():
        topic = facility.topic("partitions", 4)
        for n in range(200):
            at = (PAST_MS + n) * MS
            facility.send(topic, sdt.serialise_ev44("bank", n, [at], [0], [1, 2], [2 * n + 1, 2 * n + 2]), at, partition=n % 4)
        run = Run(facility, "partitions", entry(group("events", "NXevent_data", module("ev44", topic=topic, source="bank"))), PAST_MS, PAST_MS + 1000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            same(sorted(file["entry/events/event_id"]), range(1, 401), "event_id")

    def the_last_value_before_and_the_first_behind_are_written():
        topic = facility.topic("around")
        begin, end = PAST_MS + 4 * STEP_MS + 100, PAST_MS + 10 * STEP_MS - 100
        for n in range(15):
            at = (PAST_MS + n * STEP_MS) * MS
            facility.send(topic, sdt.serialise_ev44("bank", n, [at], [0], [7], [n + 1]), at)
            facility.send(topic, sdt.serialise_f144("axis", n, at), at)
        structure = entry(group("events", "NXevent_data", module("ev44", topic=topic, source="bank")), log("motion", f144_of(topic, "axis")))
        run = Run(facility, "around", structure, begin, end)
        facility.historical(run)
        with h5py.File(run.path) as file:
            same(file["entry/motion/value"], range(4, 11), "5 to 9 are in the run, and one beside on each side")
            same(file["entry/motion/time"], [(PAST_MS + n * STEP_MS) * MS for n in range(4, 11)], "time")
            # Ours, not theirs: events are those of the run alone (docs/write.md).
            same(file["entry/events/event_id"], range(6, 11), "events of the run")

    def a_value_from_before_the_start_is_written_when_nothing_follows():
        topic = facility.topic("quiet")
        values(topic, "delay", [(PAST_MS - 3 * STEP_MS, 2.0), (PAST_MS - STEP_MS, 3.0)])
        run = Run(facility, "quiet", entry(log("delay", f144_of(topic, "delay"))), PAST_MS, PAST_MS + 5000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            same(file["entry/delay/value"], [3.0], "value")
            same(file["entry/delay/time"], [(PAST_MS - STEP_MS) * MS], "time")

    def repeated_times_are_written_once():
        topic = facility.topic("repeated")
        end = PAST_MS + 10_000
        before = [(PAST_MS - 3 * STEP_MS, n) for n in (1, 2, 3)] + [(PAST_MS - 2 * STEP_MS, n) for n in (10, 11)]
        within = [(PAST_MS - STEP_MS, 19)] + [(PAST_MS + STEP_MS, n) for n in (20, 21, 22)]
        behind = [(end + STEP_MS, n) for n in (30, 31, 32)] + [(end + 2 * STEP_MS, 40)]
        values(topic, "s", before + within + behind)
        run = Run(facility, "repeated", entry(log("s", f144_of(topic, "s", dtype="int32"))), PAST_MS, end)
        facility.historical(run)
        with h5py.File(run.path) as file:
            same(file["entry/s/value"], [19, 20, 30], "value")

    def a_log_has_extremes_alarms_and_connections():
        topic = facility.topic("full_log")
        at = [(PAST_MS + n * STEP_MS) * MS for n in (1, 2, 3)]
        said = "The temperature is 3 K above its limit."
        facility.send(topic, sdt.serialise_al00("source", at[0], Severity.MAJOR, said), at[0])
        facility.send(topic, sdt.serialise_al00("source", at[2], Severity.OK, "fine"), at[2])
        facility.send(topic, sdt.serialise_ep01(at[0], ConnectionInfo.REMOTE_ERROR, "source"), at[0])
        values(topic, "source", zip((ns // MS for ns in at), (5, 10, 15)))
        config = {"type": "int32", "value_units": "mm", "meta_data": True}
        run = Run(facility, "full_log", entry(log("log", f144_of(topic, "source", **config)), log("bare", f144_of(topic, "source"))), PAST_MS, PAST_MS + 10_000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            for name, units in (("log", "mm"), ("bare", "")):
                found = file["entry"][name]
                same(found["value"], [5, 10, 15], "value")
                same(found["time"], at, "time")
                for extreme, wanted in (("minimum", 5), ("maximum", 15), ("average", 10)):
                    one = found[f"{extreme}_value"]
                    assert np.atleast_1d(one[()])[0] == wanted and one.attrs["units"] == units, extreme
                assert found["value"].attrs["units"] == units and found["time"].attrs["units"] == "ns"
                assert [w.decode() for w in found["alarm_message"]] == [said, "fine"]
                same(found["alarm_severity"], [Severity.MAJOR.value, Severity.OK.value], "alarm_severity")
                same(found["alarm_time"], [at[0], at[2]], "alarm_time")
                same(found["connection_status"], [ConnectionInfo.REMOTE_ERROR.value], "connection_status")
                same(found["connection_status_time"], [at[0]], "connection_status_time")

    def connections_of_a_group_outside_the_entry_are_written():
        topic = facility.topic("connections")
        begin, end = PAST_MS * MS, (PAST_MS + 5000) * MS
        states = ((begin, "NEVER_CONNECTED"), (begin + 10 * MS, "CONNECTED"), (end + STEP_MS * MS, "DISCONNECTED"))
        for at, state in states:
            facility.send(topic, sdt.serialise_ep01(at, ConnectionInfo[state], "forwarder:pv"), at)
        status = group("states", None, f144_of(topic, "forwarder:pv"))
        run = Run(facility, "connections", {"children": [status, group("entry", None)]}, PAST_MS, PAST_MS + 5000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            found = file["states"]
            same(found["connection_status"], [ConnectionInfo[state].value for _, state in states], "connection_status")
            same(found["connection_status_time"], [at for at, _ in states], "connection_status_time")

    def old_logs_with_alarms_are_written_from_a_topic_of_the_past():
        topics, empty = [facility.topic(f"old_log_{n}") for n in range(2)], facility.topic("old_log_empty")
        for topic in topics:
            for n in range(200):
                at = (PAST_MS + n * STEP_MS) * MS
                high = 50 <= n < 60
                status = AlarmStatus.HIGH if high else AlarmStatus.NO_ALARM
                severity = AlarmSeverity.MAJOR if high else AlarmSeverity.NO_ALARM
                facility.send(topic, sdt.serialise_f142(42, "s", at, status, severity), at)
        structure = entry(*(log(topic, module("f142", type="int32", topic=topic, source="s")) for topic in [*topics, empty]))
        run = Run(facility, "old_logs", structure, PAST_MS + 2 * STEP_MS, PAST_MS + 148 * STEP_MS)
        facility.historical(run)
        with h5py.File(run.path) as file:
            for topic in topics:
                found = file["entry"][topic]
                same(found["time"], [(PAST_MS + n * STEP_MS) * MS for n in range(1, 150)], "one before to one behind")
                assert len(found["alarm_status"]) == len(found["alarm_severity"]) == 149
                same(np.flatnonzero(found["alarm_status"][:] == AlarmStatus.HIGH), range(49, 59), "the alarm")
                assert found["alarm_status"][0] == AlarmStatus.NO_ALARM
                assert found["alarm_time"][0] == (PAST_MS + STEP_MS) * MS
            assert len(file["entry"][empty]["time"]) == 0

    def a_short_run_is_found_among_many_messages():
        topic = facility.topic("many")
        first = PAST_MS - 30_000 * STEP_MS
        values(topic, "s", ((first + n * STEP_MS, n) for n in range(60_000)))
        run = Run(facility, "many", entry(log("s", f144_of(topic, "s", dtype="int64"))), PAST_MS, PAST_MS + 148 * STEP_MS)
        facility.historical(run)
        with h5py.File(run.path) as file:
            same(file["entry/s/value"], range(29_999, 30_150), "one before to one behind")

    def sources_of_one_topic_are_told_apart():
        topic = facility.topic("shared")
        values(topic, "one", [(PAST_MS + n * STEP_MS, n) for n in range(10)])
        values(topic, "two", [(PAST_MS + n * STEP_MS, -n) for n in range(12)])
        logs = [log("one", f144_of(topic, "one")), log("two", f144_of(topic, "two")), log("again", f144_of(topic, "two", cue_interval=1))]
        run = Run(facility, "shared", entry(group("sample", "NXsample", *logs)), PAST_MS, PAST_MS + 60_000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            sample = file["entry/sample"]
            same(sample["one/value"], range(10), "one")
            same(sample["two/value"], [-n for n in range(12)], "two")
            same(sample["again/value"], sample["two/value"], "again")
            same(sample["again/cue_index"], range(12), "a cue for each")

    def every_module_writes_what_it_should():
        choppers, detectors = facility.topic("choppers"), facility.topic("detectors")
        at = [(PAST_MS + n) * MS for n in range(0, 800, 100)]
        speed = "chop:speed"
        for n, (value, severity, said) in enumerate(((10, Severity.MINOR, "too slow"), (15, Severity.OK, "perfect"))):
            facility.send(choppers, sdt.serialise_f144(speed, value, at[n]), at[n])
            facility.send(choppers, sdt.serialise_ep01(at[n] + 1, ConnectionInfo.CONNECTED, speed), at[n])
            facility.send(choppers, sdt.serialise_al00(speed, at[n] + 2, severity, said), at[n])
        facility.send(choppers, sdt.serialise_tdct("tdct", np.array(at[:3], dtype=np.uint64)), at[0])
        for n in range(4):
            offsets = [40 * n + 10 * (i + 1) for i in range(4)]
            facility.send(detectors, sdt.serialise_ev44("events", n, [at[n]], [0], offsets, [1, 2, 3, 4]), at[n])
        images = np.array([[[10, 11], [12, 13]], [[13, 12], [11, 10]]], dtype=np.int16)
        for n in range(2):
            facility.send(detectors, sdt.serialise_ad00("image", n, at[4 + n], images[n]), at[4 + n])
        counts = sdt.dataarray_da00.Variable(name="signal", data=np.array([1, 2, 3]), axes=["x"], shape=[3])
        facility.send(detectors, sdt.serialise_da00("monitor", at[6], [counts]), at[6])
        depends_on = dataset("depends_on", ".", "string")
        structure = entry(
            module("mdat", items=["start_time", "end_time"]),
            group(
                "instrument", "NXinstrument",
                group("chopper", "NXdisk_chopper", log("rotation_speed", f144_of(choppers, speed, value_units="Hz", dtype="double")),
                      dataset("slit_edges", [30.0, 330.0], "double", ("units", "deg", "string")),
                      group("top_dead_center", "NXlog", module("tdct", topic=choppers, source="tdct")), depends_on),
                group("event_detector", "NXdetector", dataset("detector_number", [[1, 2, 3, 4]], "int32"),
                      group("events", "NXevent_data", module("ev44", topic=detectors, source="events")), depends_on),
                group("image_detector", "NXdetector",
                      log("data", module("ad00", topic=detectors, source="image", array_size=[2, 2], dtype="int16")), depends_on),
                # What its variables are is not said: the existing writer takes such a start.
                group("beam_monitor", "NXmonitor", module("da00", topic=detectors, source="monitor", dtype="int32"), depends_on),
            ),
        )
        run = Run(facility, "modules", structure, PAST_MS, PAST_MS + 10_000)
        facility.historical(run)
        with h5py.File(run.path) as file:
            instrument = file["entry/instrument"]
            found = instrument["chopper/rotation_speed"]
            same(found["value"], [10, 15], "value")
            same(found["time"], at[:2], "time")
            same(found["connection_status"], [2, 2], "connection_status")
            same(found["connection_status_time"], [ns + 1 for ns in at[:2]], "connection_status_time")
            same(found["alarm_severity"], [1, 0], "alarm_severity")
            assert [w.decode() for w in found["alarm_message"]] == ["too slow", "perfect"]
            assert found["average_value"][()] == 12.5
            same(instrument["chopper/top_dead_center/time"], at[:3], "tdct")
            events = instrument["event_detector/events"]
            same(events["event_time_offset"], range(10, 170, 10), "event_time_offset")
            same(events["event_time_zero"], at[:4], "event_time_zero")
            same(events["event_index"], [0, 4, 8, 12], "event_index")
            same(events["event_id"], [1, 2, 3, 4] * 4, "event_id")
            data = instrument["image_detector/data"]
            same(data["value"], images, "images")
            same(data["time"], at[4:6], "time of the images")
            assert data["value"].attrs["units"] == "" and data["time"].attrs["units"] == "ns"
            same(instrument["beam_monitor/time"], at[6:7], "time of the monitor")
        loaded = scippnexus.load(run.path, root="entry")
        assert loaded["instrument"]["event_detector"] is not None, "scippnexus reads it"

    def a_template_is_taken_by_the_name_of_the_instrument():
        topic = facility.topic("old_choppers")
        values(topic, "chop:delay", [(PAST_MS + n * STEP_MS, float(n)) for n in range(4)])
        run = Run(facility, "template", "", PAST_MS, PAST_MS + 10_000)
        facility.historical(run, instrument_name="chopper_test")
        with h5py.File(run.path) as file:
            same(file["entry/delay/value"], range(4), "value")

    def the_end_counts_events_of_each_group():
        topic = facility.topic("counted")
        for n in range(7):
            at = (PAST_MS + n * STEP_MS) * MS
            facility.send(topic, sdt.serialise_ev44("bank", n, [at], [0], [1, 2, 3], [1, 2, 3]), at)
        run = Run(facility, "counted", entry(group("bank_events", "NXevent_data", module("ev44", topic=topic, source="bank"))), PAST_MS, PAST_MS + 10_000)
        done = facility.historical(run, metadata='{"proposal": "p1"}')
        assert '"proposal": "p1"' in done.said.metadata and '21' in done.said.metadata, done.said.metadata
        words = [m for m in facility.now() if m.schema == "wrdn" and of(run)(m)]
        assert len(words) == 1 and is_schema("wrdn")(words[0])

    def at_once(faults, scenarios):
        with ThreadPoolExecutor(len(scenarios)) as pool:
            return list(pool.map(faults, scenarios))

    report(
        [
            static_data_reach_the_file,
            links_lead_where_they_should,
            links_to_streams_have_their_data,
            a_large_start_is_taken,
            start_and_end_are_dates,
            events_of_live_data_are_all_there,
            messages_of_all_partitions_are_there,
            the_last_value_before_and_the_first_behind_are_written,
            a_value_from_before_the_start_is_written_when_nothing_follows,
            repeated_times_are_written_once,
            a_log_has_extremes_alarms_and_connections,
            connections_of_a_group_outside_the_entry_are_written,
            old_logs_with_alarms_are_written_from_a_topic_of_the_past,
            a_short_run_is_found_among_many_messages,
            sources_of_one_topic_are_told_apart,
            every_module_writes_what_it_should,
            a_template_is_taken_by_the_name_of_the_instrument,
            the_end_counts_events_of_each_group,
        ],
        at_once,
    )


main()
