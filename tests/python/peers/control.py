#!/usr/bin/env python3
"""Orders and answers: two writers of one file each share a pool.

    control.py BROKERS FOLDER

One scenario after the other, on the topics pool, idle, inst1 and inst2. Prints what went wrong in each, as JSON. What the
scenarios stand for is in crates/fullcount/tests/write_peers.rs.
"""
import json
import os
import sys
import time
from datetime import datetime, timezone

import h5py

from facility import CONTROLS, IDLE, POOLS, Facility, Run, dataset, entry, group, is_schema, module, of, on, report, text

WRITERS = ("w1", "w2")
HOUR_MS = 3_600_000
# What heartbeats of a run without a stop have, as those of the existing writer.
NO_STOP_MS = 9_223_372_036_854
TITLE = entry(module("mdat", items=["start_time", "end_time"]), dataset("title", "a title", "string"))


def main():
    facility = Facility(*sys.argv[1:3], POOLS[0])
    facility.topic("data")

    def beats(service, since=0):
        """Heartbeats of an idle writer, in front of which so many messages were heard."""
        idle = [is_schema("x5f2"), on(IDLE), lambda m: m.said.service_id == service]
        return [m for m in facility.now()[since:] if all(is_it(m) for is_it in idle)]

    def wait_for_beats(service, count, after_ms=0):
        wanted = (is_schema("x5f2"), lambda m: m.said.service_id == service and m.at_ms > after_ms)
        facility.wait(f"{count} heartbeats of {service}", *wanted, least=count + 1)

    def an_idle_writer_says_so_again_and_again():
        for writer in WRITERS:
            wait_for_beats(writer, 2)
            assert {m.status["state"] for m in beats(writer)} == {"idle"}
            assert all(m.said.update_interval > 0 for m in beats(writer))

    def a_run_says_what_it_should_in_order():
        run = Run(facility, "blank", TITLE)
        order = facility.start(run, metadata=json.dumps({"hello": 123}))
        facility.started(run)
        facility.wait("heartbeats", is_schema("x5f2"), on(run.control), of(run), least=6)
        command = facility.stop(run)
        facility.done(run)
        all_of_it = [m for m in facility.now() if m.topic == run.control and of(run)(m)]
        words = [m for m in all_of_it if m.schema != "x5f2"]
        assert [m.schema for m in words] == ["pl72", "answ", "6s4t", "answ", "wrdn"], [m.schema for m in words]
        assert words[0].raw == order, "the echo has the same bytes"
        assert [m.said.command_id for m in words if m.schema == "answ"] == [run.job, command]
        assert all(m.said.status_code == 201 for m in words if m.schema == "answ")
        status = next(m for m in all_of_it if m.schema == "x5f2").status
        assert status["state"] == "writing" and status["file_being_written"].endswith(run.file), status
        assert status["start_time"] == run.start_ms, status
        assert all_of_it[-1] is words[-1], "the end is the last word"
        assert words[-1].said.file_name.endswith(run.file)
        assert json.loads(words[-1].said.metadata)["hello"] == 123, words[-1].said.metadata
        with h5py.File(run.path) as file:
            assert not file.swmr_mode and text(file["entry/title"]) == "a title"

    def a_writer_leaves_the_pool_while_it_writes_and_comes_back():
        run = Run(facility, "rejoins", TITLE)
        facility.start(run)
        taken = facility.started(run)
        writer = taken.said.service_id
        wait_for_beats(writer, 4, taken.at_ms)
        facility.stop(run)
        done = facility.done(run)
        wait_for_beats(writer, 2, done.at_ms)
        silent = [m for m in beats(writer) if taken.at_ms < m.at_ms < done.at_ms]
        assert not silent, f"{len(silent)} idle heartbeats while it wrote"
        facility.wait("idle", is_schema("x5f2"), on(IDLE), lambda m: m.said.service_id == writer and m.at_ms > done.at_ms)

    def start_and_stop_may_stand_in_one_message():
        begin = int(time.time()) * 1000
        run = Run(facility, "one_message", TITLE, begin, begin + 2500)
        facility.start(run)
        facility.started(run)
        facility.done(run)
        with h5py.File(run.path) as file:
            for name, wanted in (("start_time", run.start_ms), ("end_time", run.stop_ms)):
                found = datetime.strptime(text(file[f"entry/{name}"]), "%Y-%m-%dT%H:%M:%S.%fZ")
                found = found.replace(tzinfo=timezone.utc).timestamp() * 1000
                assert found == wanted, f"{name}: {found}"

    def two_writers_write_three_files():
        runs = [Run(facility, f"three_{n}", TITLE, control=CONTROLS[n % 2]) for n in range(3)]
        for run in runs:
            facility.start(run)
        first, second = (facility.started(run) for run in runs[:2])
        assert {first.said.service_id, second.said.service_id} == set(WRITERS)
        # The third waits, and its stop comes before its start is read.
        for writer in WRITERS:
            wait_for_beats(writer, 2, max(first.at_ms, second.at_ms))
        assert not any(m.schema == "answ" and of(runs[2])(m) for m in facility.now()), "both are busy"
        for run in runs:
            facility.stop(run)
        for run in runs:
            facility.done(run)
            assert os.path.exists(run.path)

    def stops_with_another_service_or_job_id_are_no_stops():
        run = Run(facility, "other_ids", TITLE)
        facility.start(run)
        writer = facility.started(run).said.service_id
        ignored = [facility.stop(run, service_id="another service"), facility.stop(run, job_id="another job")]
        # To this writer, but of no job of its own: refused.
        named = facility.stop(run, service_id=writer, job_id="another job")
        assert facility.answer(named).said.status_code == 400
        heard = facility.answer(named).at_ms
        going_on = (is_schema("x5f2"), of(run), lambda m: m.at_ms > heard and m.status["stop_time"] >= NO_STOP_MS)
        facility.wait("that it goes on", *going_on, least=2)
        answers = {m.said.command_id for m in facility.now() if m.schema == "answ"}
        assert not answers & set(ignored), "nobody answers"
        correct = facility.stop(run, service_id=writer)
        assert facility.answer(correct).said.status_code == 201
        facility.done(run)

    def a_start_for_another_service_is_no_start():
        other, own = Run(facility, "not_ours", TITLE), Run(facility, "ours", TITLE)
        facility.start(other, service_id="another service")
        # What comes behind it on the same partition was read later.
        facility.start(own)
        facility.started(own)
        assert not any(m.schema == "answ" and of(other)(m) for m in facility.now())
        assert not os.path.exists(other.path)
        facility.stop(own)
        facility.done(own)

    def wrong_starts_are_refused_with_the_reason():
        odd = [dataset("a", ["1.1", "2.2"], "int32"), dataset("b", [1.1, 2.2], "int32")]
        for name, structure, words, more in (
            ("bad_json", '{"children": [{"type": "group" "name": "entry"}]}', ["nexus_structure"], {}),
            ("words_as_numbers", entry(odd[0]), ["nexus_structure", "values"], {}),
            ("fractions_as_whole_numbers", entry(odd[1]), ["nexus_structure", "values"], {}),
            ("no_topic", entry(group("x", "NXlog", module("f144", topic="missing_topic", source="s"))), ["missing_topic"], {}),
            ("no_folder", TITLE, ["folder"], {"filename": "not/there.nxs"}),
            ("no_name", TITLE, ["filename"], {"filename": ""}),
            ("odd_id", TITLE, ["job_id"], {"job_id": "no uuid"}),
        ):
            run = Run(facility, name, structure)
            run.job = more.get("job_id", run.job)
            facility.refused(run, *words, **more)
            assert not os.path.exists(run.path), name

    def a_file_that_is_there_is_not_written_again():
        first = Run(facility, "there", TITLE)
        facility.start(first)
        facility.started(first)
        facility.stop(first)
        facility.done(first)
        was = os.stat(first.path)
        facility.refused(Run(facility, "there", TITLE), "there")
        now = os.stat(first.path)
        assert (was.st_ino, was.st_size, was.st_mtime_ns) == (now.st_ino, now.st_size, now.st_mtime_ns)

    def a_stop_time_may_be_set_again():
        run = Run(facility, "again", TITLE)
        facility.start(run)
        facility.started(run)
        for later in (run.start_ms + HOUR_MS, run.start_ms + 2 * HOUR_MS):
            answer = facility.answer(facility.stop(run, later))
            assert answer.said.status_code == 201, answer.said
            assert round(answer.said.stop_time.timestamp() * 1000) == later, answer.said
            facility.wait("the stop time", is_schema("x5f2"), of(run), lambda m, at=later: m.status["stop_time"] == at)
        for wrong in (run.start_ms - 1, 1):
            assert facility.answer(facility.stop(run, wrong)).said.status_code == 400
        assert facility.answer(facility.stop(run)).said.status_code == 201
        facility.done(run)

    def ten_runs_two_at_once_are_checked_extended_stopped_and_aborted():
        for n in range(5):
            runs = [Run(facility, f"ten_{2 * n + i}", TITLE, stop_ms=int(time.time() * 1000) + HOUR_MS, control=topic) for i, topic in enumerate(CONTROLS)]
            for run in runs:
                facility.start(run)
            writers = {facility.started(run).said.service_id for run in runs}
            assert writers == set(WRITERS), "two at once"
            for run in runs:
                later = run.stop_ms + HOUR_MS
                assert facility.answer(facility.stop(run, later)).said.status_code == 201
                facility.wait("the later stop", is_schema("x5f2"), on(run.control), of(run), lambda m, at=later: m.status["stop_time"] == at)
            # One is stopped at a time, as a run that is over; the other is told to end, as one that is given up.
            for run, at_ms in zip(runs, (int(time.time() * 1000), 0)):
                assert facility.answer(facility.stop(run, at_ms)).said.status_code == 201
            for run in runs:
                facility.done(run)
                assert os.path.exists(run.path)

    def a_stop_right_behind_the_start_holds():
        run = Run(facility, "at_once", entry(dataset("start_time", "2020-02-29T01:02:03", "string")), control=CONTROLS[1])
        facility.start(run)
        command = facility.stop(run)
        assert facility.answer(command).said.status_code == 201
        facility.done(run)
        with h5py.File(run.path) as file:
            assert text(file["entry/start_time"]) == "2020-02-29T01:02:03"

    report(
        [
            an_idle_writer_says_so_again_and_again,
            a_run_says_what_it_should_in_order,
            a_writer_leaves_the_pool_while_it_writes_and_comes_back,
            start_and_stop_may_stand_in_one_message,
            two_writers_write_three_files,
            stops_with_another_service_or_job_id_are_no_stops,
            a_start_for_another_service_is_no_start,
            wrong_starts_are_refused_with_the_reason,
            a_file_that_is_there_is_not_written_again,
            a_stop_time_may_be_set_again,
            ten_runs_two_at_once_are_checked_extended_stopped_and_aborted,
            a_stop_right_behind_the_start_holds,
        ],
        lambda faults, all_of_them: list(map(faults, all_of_them)),
    )


main()
