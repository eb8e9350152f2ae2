"""A control system and its producers, as far as the scenarios beside this file need them.

    facility.py BROKERS

makes the topics pool, pool2, idle, inst1 and inst2; a start in a pool may have 20 MB.

Knows `streaming_data_types` and a Kafka client, nothing of Fullcount. What is on the control topics is read from their
beginning by one thread, decoded by the package, and kept.
"""
import json
import sys
import threading
import time
import uuid

import numpy as np
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

for _old, _new in (("unicode_", np.str_), ("string_", np.bytes_)):  # some decoders predate numpy 2
    if not hasattr(np, _old):
        setattr(np, _old, _new)
import streaming_data_types as sdt
from streaming_data_types import DESERIALISERS
from streaming_data_types.action_response_answ import ActionOutcome
from streaming_data_types.utils import get_schema

PATIENCE_S = 60
POOLS, IDLE = ("pool", "pool2"), "idle"
CONTROLS = ("inst1", "inst2")
# As many bytes as the largest start of a scenario has.
LARGEST = 20_000_000


class Heard:
    """A message of a control topic."""

    def __init__(self, message):
        self.topic, self.raw, self.at_ms = message.topic(), message.value(), message.timestamp()[1]
        self.schema = get_schema(self.raw)
        self.said = DESERIALISERS[self.schema](self.raw)

    @property
    def status(self):
        return json.loads(self.said.status_json)


class Facility:
    def __init__(self, brokers, data, pool):
        self.brokers, self.data, self.pool = brokers, data, pool
        self.admin = AdminClient({"bootstrap.servers": brokers})
        self.producer = Producer({"bootstrap.servers": brokers, "linger.ms": 5, "message.max.bytes": LARGEST})
        self.consumer = Consumer({"bootstrap.servers": brokers, "group.id": str(uuid.uuid4()), "fetch.wait.max.ms": 50})
        topics = (IDLE, *CONTROLS)
        self.consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING) for topic in topics])
        self.heard, self.news, self.fault = [], threading.Condition(), None
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        try:
            while True:
                message = self.consumer.poll(0.1)
                if message is None:
                    continue
                if message.error():
                    raise RuntimeError(message.error())
                with self.news:
                    self.heard.append(Heard(message))
                    self.news.notify_all()
        except Exception as error:  # what the package cannot read is a fault of every scenario
            with self.news:
                self.fault = error
                self.news.notify_all()

    def wait(self, what, *wanted, least=1):
        """The first `least` messages of which each of `wanted` is true."""
        end = time.monotonic() + PATIENCE_S
        with self.news:
            while True:
                if self.fault:
                    raise AssertionError(f"a message that cannot be read: {self.fault!r}")
                found = [m for m in self.heard if all(is_it(m) for is_it in wanted)]
                if len(found) >= least:
                    return found[0] if least == 1 else found
                left = end - time.monotonic()
                assert left > 0, f"no {what} within {PATIENCE_S} s"
                self.news.wait(left)

    def now(self):
        """What has been heard so far."""
        with self.news:
            return list(self.heard)

    def topic(self, name, partitions=1, **config):
        # Brokers delete messages of past years within their first minute.
        config = {"retention.ms": "-1", **config}
        made = self.admin.create_topics([NewTopic(name, partitions, 1, config=config)])
        made[name].result()
        return name

    def send(self, topic, value, at_ns=None, **more):
        """A message; with `at_ns` its Kafka time is that, else now."""
        if at_ns is not None:
            more["timestamp"] = at_ns // 1_000_000
        while True:
            try:
                self.producer.produce(topic, value, **more)
                return
            except BufferError:
                self.producer.poll(0.1)

    def flush(self):
        assert self.producer.flush(PATIENCE_S) == 0, "the broker does not take messages"

    def start(self, run, **more):
        """Sends the start of a run; gives its bytes."""
        order = {
            "job_id": run.job, "filename": run.file, "start_time": run.start_ms, "stop_time": run.stop_ms,
            "run_name": "a run", "nexus_structure": run.structure, "instrument_name": "", "broker": self.brokers,
            "metadata": "{}", "control_topic": run.control,
        }
        order = sdt.serialise_pl72(**{**order, **more})
        self.send(self.pool, order)
        self.flush()
        return order

    def stop(self, run, at_ms=0, **more):
        """Sends a stop (0: now); gives its command id."""
        command = str(uuid.uuid4())
        order = {"job_id": run.job, "run_name": "a run", "service_id": "", "stop_time": at_ms, "command_id": command}
        self.send(run.control, sdt.serialise_6s4t(**{**order, **more}))
        self.flush()
        return command

    def answer(self, command, job=None):
        """The answer to an order."""
        wanted = [is_schema("answ"), lambda m: m.said.command_id == command]
        if job is not None:
            wanted.append(lambda m: m.said.job_id == job)
        return self.wait(f"answer to {command}", *wanted)

    def started(self, run):
        """The run has begun: its answer."""
        answer = self.answer(run.job)
        assert answer.said.status_code == 201, f"{run.file}: {answer.said}"
        return answer

    def done(self, run, **more):
        """The run is over and its file whole: the message that says so."""
        done = self.wait(f"end of {run.file}", is_schema("wrdn"), lambda m: m.said.job_id == run.job)
        assert not done.said.error_encountered, f"{run.file}: {done.said}"
        return done

    def refused(self, run, *words, **more):
        """The start of the run is refused with these words, here and on the idle topic, and leaves no file."""
        self.start(run, **more)
        for topic in (run.control, IDLE):
            answer = self.wait(f"refusal on {topic}", is_schema("answ"), on(topic), lambda m: m.said.job_id == run.job)
            said = answer.said
            assert said.status_code in (400, 500) and said.outcome == ActionOutcome.Failure, said
            assert all(word in said.message for word in words), f"{words}: {said.message}"

    def historical(self, run, **more):
        """Writes a run that is over already."""
        self.flush()
        self.start(run, **more)
        self.started(run)
        return self.done(run)


class Run:
    def __init__(self, facility, name, structure, start_ms=None, stop_ms=0, control=CONTROLS[0]):
        self.job, self.file = str(uuid.uuid4()), f"{name}.nxs"
        self.path = f"{facility.data}/{self.file}"
        self.structure = structure if isinstance(structure, str) else json.dumps(structure)
        self.start_ms = int(time.time() * 1000) if start_ms is None else start_ms
        self.stop_ms, self.control = stop_ms, control


def is_schema(schema):
    return lambda m: m.schema == schema


def on(topic):
    return lambda m: m.topic == topic


def of(run):
    """Messages of the run, whatever they are."""
    def is_it(m):
        if m.schema == "x5f2":
            return m.status["job_id"] == run.job
        return getattr(m.said, "job_id", None) == run.job
    return is_it


def group(name, nx, *children):
    made = {"type": "group", "name": name, "children": list(children)}
    if nx:
        made["attributes"] = [{"name": "NX_class", "dtype": "string", "values": nx}]
    return made


def module(of, /, **config):
    return {"module": of, "config": config}


def dataset(name, values, dtype, *attributes):
    made = module("dataset", name=name, values=values, dtype=dtype)
    if attributes:
        made["attributes"] = [dict(zip(("name", "values", "dtype"), one)) for one in attributes]
    return made


def entry(*children):
    return {"children": [group("entry", "NXentry", *children)]}


def same(found, wanted, what):
    assert np.array_equal(np.asarray(found), np.asarray(wanted)), f"{what}: {list(found)[:20]}, not {list(wanted)[:20]}"


def text(dataset):
    """Text, scalar or the one of a list."""
    value = np.atleast_1d(dataset[()])[0]
    return value.decode() if isinstance(value, bytes) else str(value)


def report(scenarios, how):
    """Runs each of them; prints what went wrong, as JSON by name (null: nothing)."""
    def faults(scenario):
        begun = time.monotonic()
        try:
            scenario()
            sys.stderr.write(f"{scenario.__name__}: {time.monotonic() - begun:.1f} s\n")
            return None
        except BaseException as error:
            where = error.__traceback__
            while where.tb_next:
                where = where.tb_next
            return f"{type(error).__name__}: {error} (line {where.tb_lineno} of {where.tb_frame.f_code.co_filename})"
    names = [scenario.__name__ for scenario in scenarios]
    print(json.dumps(dict(zip(names, how(faults, scenarios)))))
    sys.stdout.flush()


def make_topics(brokers):
    admin = AdminClient({"bootstrap.servers": brokers})
    large = {"max.message.bytes": str(LARGEST)}
    topics = [NewTopic(pool, 1, 1, config=large) for pool in POOLS]
    topics += [NewTopic(topic, 1, 1) for topic in (IDLE, *CONTROLS)]
    for made in admin.create_topics(topics).values():
        made.result()


if __name__ == "__main__":
    make_topics(sys.argv[1])
