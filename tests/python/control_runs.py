#!/usr/bin/env python3
"""Controls ten runs of `fullcount write`, two at once, and checks every file with h5py.

    control_runs.py topics BROKERS
    control_runs.py runs BROKERS FOLDER

Knows Kafka, ess-streaming-data-types and what control systems do with them: NICOS (nicos_ess, file_writer.py: a start whose
stop is ten years away, a stop that is "now" by the client's clock, a run written again from what the topics hold) and the
library file-writer-control (stop times that are set and replaced, an abort, a start for a writer that it names). Nothing of
Fullcount is read but the numbers in "stop time set; ...", which say what came between a stop and its reading.

The first makes the topics: `pool` (two partitions), `instrument` (control), `events`, `logs`. FOLDER is the writers' folder,
with ess/raw in it. Prints one JSON object: what was checked. Ends with status 1 and a sentence at the first fault.
"""
import json
import re
import sys
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path

import h5py
import numpy as np
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # some decoders predate numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
from streaming_data_types import (
    deserialise_answ,
    deserialise_pl72,
    deserialise_wrdn,
    deserialise_x5f2,
    serialise_6s4t,
    serialise_al00,
    serialise_ev44,
    serialise_f144,
    serialise_pl72,
)
from streaming_data_types.alarm_al00 import Severity
from streaming_data_types.fbschemas.action_response_answ.ActionOutcome import ActionOutcome
from streaming_data_types.fbschemas.action_response_answ.ActionType import ActionType

POOL, CONTROL, EVENTS, LOGS = "pool", "instrument", "events", "logs"
GROUP = "fullcount-writers"
WRITERS = 2
PIXELS = 128
# Events of a message, messages per second.
SIZE, RATE = 40, 100
# Longest wait for any answer, and how late a heartbeat may be before a client takes a job for lost (NICOS: 5 s).
PATIENCE, LATE = 40.0, 5.0
MS = 10**6


class Fault(Exception):
    pass


def expect(ok, what):
    if not ok:
        raise Fault(what)


def ms(moment):
    return int(moment.timestamp() * 1000)


class Feed:
    """Events and logs that flow all the time; remembers when each was."""

    def __init__(self, brokers):
        self.producer = Producer({"bootstrap.servers": brokers, "linger.ms": 2, "enable.idempotence": True})
        self.pulses, self.values, self.alarms = [], [], []
        self.ended = threading.Event()
        self.fault = None
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        try:
            n = 0
            while not self.ended.wait(1 / RATE):
                self.send(n)
                n += 1
        except Exception as error:  # said by whoever waits
            self.fault = error

    def send(self, n):
        now = time.time_ns()
        i = np.arange(n * SIZE, (n + 1) * SIZE)
        event = serialise_ev44(
            "bank", n, np.array([now]), np.array([0], dtype=np.int32),
            i.astype(np.int32), (i % PIXELS + 1).astype(np.int32),
        )
        self.pulses.append(now)
        self.producer.produce(EVENTS, event)
        if n % 2 == 0:
            value = serialise_f144("temperature", 280.0 + n, now)
            self.values.append((now, 280.0 + n))
            self.producer.produce(LOGS, value)
            if n % 10 == 0:
                # A forwarder repeats the last value from time to time.
                self.producer.produce(LOGS, value)
        if n % 50 == 0:
            self.alarms.append(now)
            self.producer.produce(LOGS, serialise_al00("temperature", now, Severity.MINOR, f"warm {n}"))
        self.producer.poll(0)

    def end(self):
        self.ended.set()
        self.thread.join()
        self.producer.flush(PATIENCE)
        if self.fault:
            raise self.fault


class Ear:
    """The control topic: what was said of each job, in its order, and when its writer was last heard."""

    def __init__(self, brokers):
        self.consumer = Consumer({"bootstrap.servers": brokers, "group.id": "ear", "enable.auto.commit": False})
        self.consumer.assign([TopicPartition(CONTROL, 0, 0)])
        self.news = threading.Condition()
        self.jobs, self.idle, self.fault = {}, {}, None
        self.echoes = []
        self.ended = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while not self.ended:
            message = self.consumer.poll(0.1)
            if message is None or message.error():
                continue
            try:
                self.hear(message.value())
            except Exception as error:
                self.fault = error
            with self.news:
                self.news.notify_all()

    def hear(self, value):
        schema = value[4:8]
        if schema == b"x5f2":
            status = deserialise_x5f2(value)
            said = json.loads(status.status_json)
            if said["state"] == "idle":
                self.idle[status.service_id] = time.monotonic()
                return
            expect(said["state"] == "writing" and said["file_being_written"], f"a state of work: {said}")
            # NICOS makes a date of both, whatever they are.
            for key in ("start_time", "stop_time"):
                datetime.fromtimestamp(said[key] / 1000)
            self.add(said["job_id"], ("x5f2", status, said))
        elif schema == b"answ":
            answer = deserialise_answ(value)
            self.add(answer.job_id, ("answ", answer))
        elif schema == b"wrdn":
            done = deserialise_wrdn(value)
            self.add(done.job_id, ("wrdn", done))
        elif schema == b"pl72":
            self.echoes.append((deserialise_pl72(value).job_id, value))

    def add(self, job, what):
        with self.news:
            self.jobs.setdefault(job, []).append((time.monotonic(), *what))

    def wait(self, what, find):
        """The first that `find` gives, looked for anew with each message."""
        end = time.monotonic() + PATIENCE
        with self.news:
            while True:
                if self.fault:
                    raise Fault(f"on the control topic: {self.fault!r}")
                found = find()
                if found is not None:
                    return found
                expect(time.monotonic() < end, f"{what}: not within {PATIENCE} s")
                self.news.wait(0.1)


class Run:
    """One run, as a control system follows it."""

    def __init__(self, client, number, kind):
        self.client, self.ear, self.number, self.kind = client, client.ear, number, kind
        self.job_id = str(uuid.uuid1())
        self.file_name = f"/ess/raw/999999_{number:0>8}.hdf" if number % 2 else f"ess/raw/999999_{number:0>8}.hdf"
        self.metadata = {"run": number, "sample": {"name": "vanadium"}}
        self.service_id, self.stop, self.commands = "", None, 0
        self.behind = (0, 0)
        self.start_sent = None

    def first(self, schema, test=lambda *_: True):
        def find():
            for at, kind, *what in self.ear.jobs.get(self.job_id, []):
                if kind == schema and test(*what):
                    return what
            return None
        return find

    def begin(self, start, stop, **more):
        self.start, self.stop = start, stop
        value = serialise_pl72(
            self.job_id, self.file_name, start, stop, nexus_structure=self.client.structure(self), broker="",
            instrument_name="dream", run_name="", metadata=json.dumps(self.metadata), **{"control_topic": CONTROL, **more},
        )
        topic, partition = (CONTROL, 0) if more.get("service_id") else (POOL, self.number % WRITERS)
        self.start_sent = (topic, value)
        self.client.send(topic, partition, value)
        answer, = self.ear.wait(f"{self.kind}: the answer to the start", self.first("answ"))
        expect(answer.action == ActionType.StartJob and answer.outcome == ActionOutcome.Success, f"{self.kind}: {answer}")
        expect(answer.status_code == 201 and answer.command_id == self.job_id and answer.message == "job started", f"{answer}")
        self.service_id = answer.service_id
        expect(self.service_id in self.client.writers, f"a writer of the pool: {answer}")

    def order(self, stop, status=201, words="stop time set"):
        """A stop, as the answer says."""
        self.commands += 1
        command = str(uuid.uuid1())
        value = serialise_6s4t(
            job_id=self.job_id, run_name="", service_id=self.service_id, command_id=command, stop_time=stop
        )
        before = time.time_ns()
        self.client.send(CONTROL, 0, value)
        after = time.time_ns()
        answer, = self.ear.wait(f"{self.kind}: the answer to a stop", self.first("answ", lambda a: a.command_id == command))
        expect(answer.action == ActionType.SetStopTime and answer.service_id == self.service_id, f"{self.kind}: {answer}")
        expect(answer.status_code == status and words in answer.message, f"{self.kind}: {answer}")
        expect((answer.outcome == ActionOutcome.Success) == (status == 201), f"{self.kind}: {answer}")
        if status == 201:
            said = int(round(answer.stop_time.timestamp() * 1000))
            if stop == 0:
                # The moment when Kafka got it.
                expect(before // MS - 1 <= said <= after // MS + 1, f"{said} is between {before} and {after} ns")
            else:
                expect(said == ms(stop), f"{said} is {stop}")
            self.stop = said
            self.behind = (0, 0)
            if found := re.search(r"; (\d+) events and (\d+) values up to", answer.message):
                self.behind = (int(found[1]), int(found[2]))
        return answer

    def seen_with_stop(self):
        """A heartbeat shows the stop that holds."""
        self.ear.wait(f"{self.kind}: stop {self.stop} in x5f2", self.first("x5f2", lambda _, s: s["stop_time"] == self.stop))

    def sleep_until(self, moment):
        time.sleep(max(0.0, (moment - datetime.now()).total_seconds()))

    def drive(self):
        now, second = datetime.now(), timedelta(seconds=1)
        far = now + timedelta(days=365.25 * 10)
        if self.kind == "nicos":
            self.begin(now, far)
            self.seen_while_writing()
            self.sleep_until(now + 2 * second)
            self.order(datetime.now())
        elif self.kind == "behind":
            # The client's clock is late: what came since is in the file already, and the answer says how much.
            self.begin(now, far)
            self.sleep_until(now + 4.5 * second)
            # The writer, which may have to wait for a processor, has read something of it.
            self.order(datetime.now() - 2.5 * second, words="are in the file already, and stay")
            expect(self.behind[0] > 0 and self.behind[1] > 0, f"{self.behind} behind the stop")
        elif self.kind == "extended":
            self.begin(now, far)
            self.order(datetime.now() + 2 * second)
            self.seen_with_stop()
            self.order(datetime.now() + 4.2 * second)
            self.seen_with_stop()
            self.sleep_until(datetime.fromtimestamp(self.stop / 1000) - 2.2 * second)
            self.order(datetime.now() + 3.2 * second)
        elif self.kind == "planned":
            # The stop is in the start, then moved behind it.
            self.begin(now, now + 3 * second)
            self.order(now + 4 * second)
            self.seen_with_stop()
            # A run whose stop is passed by all its data is not extended any more, and says so. It is over 5 s behind its stop (--leeway);
            # in the midst of these the writer has read the data behind the stop.
            self.sleep_until(now + 6.5 * second)
            self.order(now + 60 * second, status=400, words="has passed its stop_time")
        elif self.kind == "shortened":
            self.begin(now, now + 60 * second)
            self.order(now + 40 * second)
            self.seen_with_stop()
            self.order(datetime.now() + 1 * second)
        elif self.kind == "aborted":
            self.begin(now, far)
            self.order(now + 60 * second)
            self.seen_with_stop()
            self.sleep_until(now + 1 * second)
            self.order(0)
        elif self.kind == "replayed":
            # What the topics hold already is written again, by the times of a run that is over.
            self.begin(now - 5 * second, now - 1.5 * second)
        elif self.kind == "named":
            # For a writer that the client chose among those that are idle or busy, on the control topic.
            self.begin(now, far, service_id=self.client.writers[self.number % WRITERS], control_topic="")
            expect(self.service_id == self.client.writers[self.number % WRITERS], f"{self.service_id} took it")
            self.seen_while_writing()
            self.sleep_until(now + 1 * second)
            self.order(0)
        else:
            raise Fault(self.kind)
        self.done()
        self.check()
        if self.kind == "aborted":
            # Who repeats an abort until the run is over may be late with the last one.
            self.order(0, status=400, words="no such job in this writer")

    def seen_while_writing(self):
        status, said = self.ear.wait(f"{self.kind}: x5f2", self.first("x5f2"))
        expect(status.service_id == self.service_id and status.host_name and status.update_interval > 0, f"{status}")
        expect(said["file_being_written"].endswith(self.file_name.lstrip("/")), f"{said}")
        expect(said["start_time"] == ms(self.start), f"{said}")

    def done(self):
        done, = self.ear.wait(f"{self.kind}: its end", self.first("wrdn"))
        expect(not done.error_encountered and done.message == "the file is complete", f"{self.kind}: {done}")
        expect(done.file_name == self.file_name and done.service_id == self.service_id, f"{self.kind}: {done}")
        self.said = json.loads(done.metadata)
        for key, value in self.metadata.items():
            expect(self.said.get(key) == value, f"{self.kind}: {key} of the start is in the end: {self.said}")
        # Never so late that a client takes the job for lost: from the answer to the end.
        heard = [at for at, *_ in self.ear.jobs[self.job_id]]
        gaps = [b - a for a, b in zip(heard, heard[1:])]
        expect(not gaps or max(gaps) < LATE + 0.5, f"{self.kind}: silent for {max(gaps, default=0):.1f} s")

    def check(self):
        """The file has every event and value between start and stop, and what its answer said beside."""
        start, stop = ms(self.start) * MS, (self.stop if isinstance(self.stop, int) else ms(self.stop)) * MS
        feed = self.client.feed
        with h5py.File(self.client.folder / self.file_name.lstrip("/")) as file:
            events = file["entry/instrument/bank/bank_events"]
            zero, index = events["event_time_zero"][()].astype(np.int64), events["event_index"][()].astype(np.int64)
            first = next((n for n, t in enumerate(feed.pulses) if t >= start), len(feed.pulses))
            wanted = [n for n, t in enumerate(list(feed.pulses)) if start <= t <= stop]
            expect(len(wanted) > 50, f"{self.kind}: only {len(wanted)} messages between start and stop")
            more = self.behind[0] // SIZE
            expect(self.behind[0] % SIZE == 0, f"whole pulses behind the stop: {self.behind}")
            wanted += range(first + len(wanted), first + len(wanted) + more)
            times = np.array([feed.pulses[n] for n in wanted])
            expect(np.array_equal(zero, times), f"{self.kind}: {len(zero)} pulses, expected {len(times)}, {more} behind the stop")
            expect(np.array_equal(index, np.arange(len(times)) * SIZE), f"{self.kind}: first event of each pulse")
            i = np.arange(wanted[0] * SIZE, (wanted[-1] + 1) * SIZE)
            expect(np.array_equal(events["event_time_offset"][()], i.astype(np.int32)), f"{self.kind}: times of events")
            expect(np.array_equal(events["event_id"][()], i % PIXELS + 1), f"{self.kind}: pixels of events")
            self.events = len(i)
            count = self.said["events"]
            expect(list(count.values()) == [len(i)] if isinstance(count, dict) else count == len(i), f"{self.kind}: {count}")

            log = file["entry/sample/temperature"]
            pairs = list(zip(log["time"][()].astype(np.int64), log["value"][()]))
            more = [self.rows(pairs, feed.values, start, stop, "value")]
            pairs = [(t, None) for t in log["alarm_time"][()].astype(np.int64)]
            more.append(self.rows(pairs, [(t, None) for t in feed.alarms], start, stop, "alarm"))
            # The first after the stop is written as well, of each that had none behind it: it says until when the last one held.
            said = self.behind[1]
            expect(said <= sum(more) <= said + more.count(1), f"{self.kind}: {more} rows behind the stop, said {said}")
            text = file["entry/entry_identifier_uuid"][()]
            expect((text[0] if getattr(text, "shape", ()) else text).decode() == self.job_id, f"{self.kind}: id of the run")

    def rows(self, found, sent, start, stop, what):
        """Rows of a log: the last before the start, all between, and some behind the stop, whose number is given back."""
        sent = list(sent)
        before = [row for row in sent if row[0] < start][-1:]
        between = [row for row in sent if start <= row[0] <= stop]
        behind = [row for row in sent if row[0] > stop]
        wanted = before + between
        expect(found[: len(wanted)] == wanted, f"{self.kind}: {what}: {len(found)} rows, expected {len(wanted)}")
        more = found[len(wanted):]
        expect(more == behind[: len(more)], f"{self.kind}: {what}s behind the stop: {more[:3]}")
        return len(more)


def make_topics(brokers):
    new = [NewTopic(POOL, WRITERS, 1)] + [NewTopic(name, 1, 1) for name in (CONTROL, EVENTS, LOGS)]
    admin = AdminClient({"bootstrap.servers": brokers})
    for made in admin.create_topics(new).values():
        made.result(PATIENCE)


class Client:
    def __init__(self, brokers, folder):
        self.brokers, self.folder = brokers, Path(folder)
        self.admin = AdminClient({"bootstrap.servers": brokers})
        self.producer = Producer({"bootstrap.servers": brokers, "linger.ms": 0})
        self.busy, self.most, self.lock = 0, 0, threading.Lock()

    def send(self, topic, partition, value):
        """Returns once the broker has it, as NICOS waits for the delivery of a start."""
        faults = []
        self.producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: faults.append(error))
        expect(self.producer.flush(PATIENCE) == 0 and faults == [None], f"{topic}: {faults}")

    def ready(self):
        """Each writer listens, and has a partition of the pool."""
        self.ear.wait("writers", lambda: len(self.ear.idle) == WRITERS or None)
        self.writers = sorted(self.ear.idle)
        end = time.monotonic() + PATIENCE
        while True:
            group = self.admin.describe_consumer_groups([GROUP])[GROUP].result(PATIENCE)
            shares = [len(m.assignment.topic_partitions) for m in group.members if m.assignment]
            if shares == [1] * WRITERS:
                return
            expect(time.monotonic() < end, f"shares of the pool: {shares}")
            time.sleep(0.1)

    def structure(self, run):
        """What NICOS sends: a template, and what it puts into each."""
        group = lambda name, nx, children: {  # noqa: E731
            "type": "group", "name": name, "children": children,
            "attributes": [{"name": "NX_class", "dtype": "string", "values": nx}],
        }
        text = lambda name, value: {"module": "dataset", "config": {"name": name, "values": value, "type": "string"}}  # noqa: E731
        number = {"name": "detector_number", "values": list(range(1, PIXELS + 1)), "dtype": "int32"}
        bank = group("bank", "NXdetector", [
            {"module": "dataset", "config": number},
            group("bank_events", "NXevent_data", [{"module": "ev44", "config": {"topic": EVENTS, "source": "bank"}}]),
        ])
        log = {"module": "f144", "config": {"topic": LOGS, "source": "temperature", "dtype": "double", "value_units": "K"}}
        entry = group("entry", "NXentry", [
            group("instrument", "NXinstrument", [text("name", "DREAM"), bank]),
            group("sample", "NXsample", [text("name", "vanadium"), group("temperature", "NXlog", [log])]),
        ])
        entry["children"] += [
            text("title", f"run {run.number}"), text("experiment_identifier", "999999"),
            text("entry_identifier", str(run.number)), text("entry_identifier_uuid", run.job_id),
            {"module": "mdat", "config": {"items": ["start_time", "end_time"]}},
            {"type": "group", "name": "user_APerson", "attributes": {"NX_class": "NXuser"}, "children": [text("name", "A. Person")]},
        ]
        return json.dumps({"children": [entry]})

    def one(self, run):
        with self.lock:
            self.busy += 1
            self.most = max(self.most, self.busy)
        try:
            run.drive()
        finally:
            with self.lock:
                self.busy -= 1

    def refused(self):
        """What is wrong is answered so that a client can show it; a run of the same id is not disturbed."""
        run = Run(self, 90, "refused")
        for change, words in [
            ({"filename": "../x.hdf"}, "leads out"),
            ({"filename": "ess/none/x.hdf"}, ""),
            ({"nexus_structure": "{"}, "nexus_structure"),
            ({"stop_time": 1}, ""),
        ]:
            job = str(uuid.uuid1())
            told = {"filename": f"ess/raw/{job}.hdf", "nexus_structure": self.structure(run), "stop_time": 0, **change}
            value = serialise_pl72(job, start_time=datetime.now(), control_topic=CONTROL, **told)
            self.send(POOL, 0, value)
            run.job_id = job
            answer, = self.ear.wait(f"refused: {change}", run.first("answ"))
            expect(answer.outcome == ActionOutcome.Failure and answer.status_code in (400, 500), f"{answer}")
            expect(words in answer.message and answer.command_id == job, f"{answer}")
        return 4

    def all(self):
        self.ear = Ear(self.brokers)
        self.ready()
        self.feed = Feed(self.brokers)
        self.feed.thread.start()
        # A value from before each start; and what is written again must have been there.
        self.ear.wait("data", lambda: len(self.feed.alarms) > 2 or None)
        kinds = [
            "nicos", "extended", "planned", "aborted", "named", "replayed", "shortened", "behind", "extended", "aborted",
        ]
        runs = [Run(self, n, kind) for n, kind in enumerate(kinds)]
        with ThreadPoolExecutor(2) as two:
            for done in [two.submit(self.one, run) for run in runs]:
                done.result()
        refused = self.refused()
        self.feed.end()
        expect(self.most == 2, f"{self.most} runs at once")
        # Each start that came by the pool is on the control topic once, as it was sent.
        for run in runs:
            topic, value = run.start_sent
            heard = [said for job, said in self.ear.echoes if job == run.job_id]
            expect(heard == [value], f"{run.kind}: {len(heard)} echoes of a start on {topic}")
            ends = [what for _, *what in self.ear.jobs[run.job_id] if what[0] == "wrdn"]
            expect(len(ends) == 1, f"{run.kind}: {len(ends)} ends")
        writers = {run.service_id for run in runs}
        expect(len(writers) == WRITERS, f"all writers took part: {writers}")
        self.ear.ended = True
        self.ear.thread.join()
        return {
            "runs": len(runs), "at_once": self.most, "orders": sum(run.commands for run in runs), "refused": refused,
            "events": sum(run.events for run in runs), "behind": sum(run.behind[0] for run in runs),
        }


def main():
    begun = time.monotonic()
    if sys.argv[1] == "topics":
        return make_topics(sys.argv[2])
    try:
        done = Client(*sys.argv[2:4]).all()
    except Fault as fault:
        sys.exit(f"fault: {fault}")
    print(json.dumps({**done, "seconds": round(time.monotonic() - begun, 1)}))


main()
