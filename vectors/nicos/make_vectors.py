#!/usr/bin/env python3
"""Makes the run starts of odin, tbl, estia, freia, magic and beer again.

    make_vectors.py FOLDER

Standard library only. The shape is that of what NICOS sends for these instruments today: a template of the instrument, into
which NICOS puts title, identifiers, mdat, users and sample. Which components there are and what streams they have is as in
public files and programs of the facility; names of sources are made up after the same patterns, sizes are small, values invented.
"""
import json
import sys
from pathlib import Path


def group(name, nx, children, attributes=(), typed=True):
    nx_class = {"name": "NX_class", "dtype": "string", "values": nx} if typed else {"name": "NX_class", "values": nx}
    return {"type": "group", "name": name, "attributes": [nx_class, *attributes], "children": children}


def attribute(name, values, dtype="string"):
    return {"name": name, "dtype": dtype, "values": values}


def dataset(name, values, dtype=None, key="dtype", **attributes):
    made = {"module": "dataset", "config": {"name": name, "values": values}}
    if dtype:
        made["config"][key] = dtype
    if attributes:
        made["attributes"] = [attribute(k, v, "double" if k in ("vector", "offset") else "string") for k, v in attributes.items()]
    return made


def text(name, values, key="dtype"):
    return dataset(name, values, "string", key)


def link(name, source, **more):
    return {"module": "link", "config": {"name": name, "source": source, **more}}


def stream(module, topic, source, **config):
    return {"module": module, "config": {"source": source, "topic": topic, **config}}


def log(name, topic, source, units, dtype="double", attributes=()):
    return group(name, "NXlog", [stream("f144", topic, source, dtype=dtype, value_units=units)], attributes)


def motor(name, topic, pv, units="mm"):
    return group(name, "NXpositioner", [
        log("value", topic, f"{pv}.RBV", units), log("target_value", topic, f"{pv}.VAL", units),
        log("idle_flag", topic, f"{pv}.DMOV", "dimensionless", "int32"),
    ])


def translation(name, metres, vector, depends_on):
    return dataset(name, metres, "double", "type", transformation_type="translation", units="m", vector=vector, depends_on=depends_on)


def rotation(name, degrees, vector, depends_on):
    return dataset(name, degrees, "double", "type", transformation_type="rotation", units="deg", vector=vector, depends_on=depends_on)


def moving(name, kind, topic, source, units, vector, depends_on, dtype="double"):
    """A transformation whose value is a log."""
    return log(name, topic, source, units, attributes=[
        attribute("transformation_type", kind), attribute("units", units), attribute("vector", vector, dtype),
        attribute("depends_on", depends_on),
    ])


def placed(path, metres):
    """`depends_on` and a chain of one, at this distance behind the sample."""
    return [
        text("depends_on", f"{path}/transformations/translation"),
        group("transformations", "NXtransformations", [translation("translation", metres, [0.0, 0.0, 1.0], ".")], typed=False),
    ]


def chopper(name, topic, pv, metres, slits, units="degrees"):
    path = f"/entry/instrument/{name}"
    edges = [round(e, 3) for k in range(slits) for e in (k * 360 / slits + 10, k * 360 / slits + 40)]
    logs = [("rotation_speed", "Spd_R", "Hz"), ("rotation_speed_setpoint", "Spd_S", "Hz"), ("delay", "TotDly", "ns"),
            ("park_angle", "Pos_R", units), ("phase", "InPhs_R", "dimensionless")]
    return group(name, "NXdisk_chopper", [
        dataset("slits", slits, "int64", "type"), dataset("slit_edges", edges, "double", "type", units="deg"),
        dataset("radius", 0.35, "double", "type", units="m"), dataset("slit_height", 0.075, "double", "type", units="m"),
        *[log(n, topic, f"{pv}:{source}", u) for n, source, u in logs],
        group("top_dead_center", "NXlog", [stream("tdct", topic, f"{pv}:TDC")]),
        *placed(path, metres),
    ])


def events(name, topic, source, **config):
    return group(name, "NXevent_data", [stream("ev44", topic, source, cue_interval=100_000, chunk_size=4096, **config)])


def monitor(name, topic, source, metres, inside):
    return group(name, "NXmonitor", [text("name", source), *inside, *placed(f"/entry/instrument/{name}", metres)])


def panel(name, first, shape, children, place, offsets=True):
    """A detector of one or two dimensions, pixels of 1 cm."""
    rows, columns = shape
    number = [[first + r * columns + c for c in range(columns)] for r in range(rows)]
    x = [[c / 100 for c in range(columns)] for _ in range(rows)]
    y = [[r / 100] * columns for r in range(rows)]
    pixels = [dataset("x_pixel_offset", x, "double", units="m"), dataset("y_pixel_offset", y, "double", units="m")]
    return group(name, "NXdetector", [dataset("detector_number", number, "int32"), *(pixels if offsets else []), *place, *children])


PROTON = [
    ("cryo_tt_82025_temperature", "CrS-CMS:Cryo-TT-82025:MeasValue", "K"), ("flat_top_current", "A2T:PBI-BCM-1:FlatTopCurrentR", "mA"),
    ("pulse_charge", "A2T:PBI-BCM-1:PulseChargeR", "uC"), ("pulse_width", "A2T:PBI-BCM-1:PulseWidthR", "ms"),
]


def production(name="neutron_prod_info"):
    return group(name, "NXcollection", [log(n, "tn_data_general", source, units) for n, source, units in PROTON])


def source(metres, more=()):
    return group("source", "NXsource", [
        text("name", "European Spallation Source", "type"), text("type", "Spallation Neutron Source", "type"), text("probe", "neutron", "type"),
        *placed("/entry/instrument/source", -metres), *more,
    ])


def user(name, **more):
    """As NICOS makes them: attributes as an object, everything a text."""
    told = {"name": name, "email": f"{name.split()[-1].lower()}@example.org", "affiliation": "European Spallation Source", **more}
    return {
        "type": "group", "name": "user_" + name.replace(" ", ""), "attributes": {"NX_class": "NXuser"},
        "children": [text(k, v) for k, v in told.items()],
    }


def sample(children, links=()):
    told = {"name": "vanadium", "formula": "V", "mass": "2.1", "density": "6.11", "depends_on": "."}
    return group("sample", "NXsample", [
        *children, *[text(k, v) for k, v in told.items()],
        *[link(name, to, type="NXlink") for name, to in links],
    ])


def start(instrument, number, filename, template, users, places):
    """What is sent: the template with what NICOS adds."""
    job = f"3f2c5f6e-5a3a-4b1e-9d8e-0000000000{number:02}"
    added = [text("title", f"commissioning of {instrument}", "type"), text("experiment_identifier", "999999", "type"),
             text("entry_identifier", str(number), "type"), text("entry_identifier_uuid", job, "type"),
             {"module": "mdat", "config": {"items": ["start_time", "end_time"]}}, *users]
    entry = group("entry", "NXentry", [*template, *added])
    return {
        "start": {
            "start_time": 0, "stop_time": 0, "run_name": "", "instrument_name": instrument, "job_id": job, "broker": "",
            "service_id": "", "filename": filename, "metadata": {"entry_identifier": number},
            "control_topic": f"{instrument}_filewriter", "nexus_structure": {"children": [entry]},
        },
        **places,
    }


def expected(path, warnings, links=None, chains=None, positions=None, plain=()):
    """`links`: each with the same thing; `chains`: components with the length of what they depend on; `positions` of their first
    pixels in m; `plain`: what scippnexus takes for a plain group, since nothing was sent for it or it holds more than its class may."""
    told = {"path": path, "warnings": warnings, "links": links or {}, "chains": chains or {}, "positions": positions or {}, "plain": sorted(plain)}
    return {"expected": told}


AT = "nexus_structure.children[0].children"
TEXT_VECTOR = "numbers that are called text are written as numbers"


def odin():
    """Imaging: components that a tracker finds, each with six movements; a camera, and NXtomo's links to it."""
    def tracked(n):
        path = f"/entry/instrument/Component_{n}/transformations"
        steps = [("translation_x", "translation", "m", [1.0, 0.0, 0.0]), ("translation_y", "translation", "m", [0.0, 1.0, 0.0]),
                 ("translation_z", "translation", "m", [0.0, 0.0, 1.0]), ("rotation_alpha", "rotation", "degrees", [1.0, 0.0, 0.0]),
                 ("rotation_beta", "rotation", "degrees", [0.0, 1.0, 0.0]), ("rotation_gamma", "rotation", "degrees", [0.0, 0.0, 1.0])]
        after = [f"{path}/{name}" for name, *_ in steps[1:]] + ["."]
        chain = [moving(name, kind, "odin_metrology", f"Component_{n}:{name.split('_')[1]}", units, vector, to, "string")
                 for (name, kind, units, vector), to in zip(steps, after)]
        made = group(f"Component_{n}", "NXdisk_chopper", [
            {"module": "dataset", "config": {"name": "depends_on", "values": f"{path}/translation_x"}},
            group("transformations", "NXtransformations", chain, typed=False),
        ])
        return {**made, "required_tracking": f"Component_{n}"}

    camera = group("camera", "NXdetector", [
        group("data", "NXlog", [stream("ad00", "odin_camera", "orca", dtype="uint16", array_size=[2, 3])]),
        log("image_key", "odin_camera", "image_key", "dimensionless", "int32"),
        *placed("/entry/instrument/camera", 0.4),
    ])
    path = "/entry/instrument/timepix3"
    timepix = panel("timepix3", 0, (4, 4), [events("timepix3_events", "odin_detector", "timepix3")], placed(path, 0.6))
    template = [
        text("definition", "NXtomo", "type"), text("experiment_identifier", "$EXP_ID$", "type"), text("title", "$TITLE$", "type"),
        group("instrument", "NXinstrument", [
            text("name", "ODIN"), source(64.2), tracked(1), tracked(2), chopper("bpc1", "odin_choppers", "ODIN-ChpSy1:Chop-BPC-101", -55.7, 1),
            chopper("foc1", "odin_choppers", "ODIN-ChpSy1:Chop-FOC-101", -55.8, 6), motor("camera1_distance", "odin_motion", "ODIN-CmDis1:MC-LinZ-01:Mtr"),
            motor("camera1_focus", "odin_motion", "ODIN-CmFoc1:MC-RotZ-01:Mtr", "degrees"), timepix, camera,
            *[monitor(f"beam_monitor_{n}", "odin_beam_monitor", f"cbm{n}", -10.0 + n, [events(f"monitor_{n}_events", "odin_beam_monitor", f"cbm{n}")]) for n in (1, 2)],
        ]),
        sample([log("rotation_angle", "odin_motion", "ODIN-SpRot:MC-RotZ-01:Mtr.RBV", "degrees")]),
        group("data", "NXdata", [link("data", "/entry/instrument/camera/data"), link("rotation_angle", "/entry/sample/rotation_angle"),
                                 link("image_key", "/entry/instrument/camera/image_key")]),
        "$USERS$",
    ]
    vector = [f"{AT}[3].children[{c}].children[1].children[{t}].attributes[3].values: {TEXT_VECTOR}" for c in (2, 3) for t in range(6)]
    # Eight are said: the others are counted.
    chains = {"/entry/instrument/Component_1": 6, "/entry/instrument/Component_2": 6, path: 1, "/entry/instrument/camera": 1}
    links = {"/entry/data/data": "/entry/instrument/camera/data", "/entry/data/rotation_angle": "/entry/sample/rotation_angle",
             "/entry/data/image_key": "/entry/instrument/camera/image_key", "/entry/timepix3_events": f"{path}/timepix3_events"}
    name = "ess/data/odin/2026/999999/raw/999999_00000005.hdf"
    return start("odin", 5, f"/{name}", template, [user("Ada Person"), user("Öva Person")],
                 expected(name, vector[:8] + ["and 7 more"], links, chains, {path: [0.0, 0.0, 0.6]}))


def tbl():
    """A test beam line: five kinds of detectors side by side, high voltages as logs in a detector, a camera, and a template with an mdat."""
    def bank(n):
        path = f"/entry/instrument/he3_detector_bank{n}"
        volts = [log(f"he3_bank{n}_hvps_ch0{c}_{what}", "tbl_misc_devices", f"TBL-DtCmn:PwrC-HVM-10{n + 1}:Ch0{c}-{pv}", "V")
                 for c in (0, 1) for what, pv in (("voltage", "VMon"), ("current", "IMon"))]
        return panel(f"he3_detector_bank{n}", 1 + 8 * n, (2, 4), [events("he3_events", "tbl_detector_3he", f"bank{n}"), *volts], placed(path, 1.0 + n))

    def other(name, topic, origin, first, shape):
        return panel(name, first, shape, [events(f"{name}_events", topic, origin)], placed(f"/entry/instrument/{name}", 2.0))

    orca = group("orca_detector", "NXdetector", [
        stream("ad00", "tbl_area_detector_orca", "hama_kfk1", dtype="uint16", array_size=[2, 3]), *placed("/entry/instrument/orca_detector", 2.5),
    ])
    template = [
        {"module": "mdat", "config": {"items": ["start_time", "end_time"]}},
        group("instrument", "NXinstrument", [
            dataset("name", "TBL", "string", short_name="TBL"), source(27.0), bank(0), bank(1), other("timepix3_detector", "tbl_detector_tpx3", "timepix3", 0, (4, 4)),
            other("ngem_detector", "tbl_detector_ngem", "tbl-ngem", 1, (2, 8)), other("multiblade_detector", "tbl_detector_mb", "multiblade", 1, (4, 8)), orca,
            chopper("bwc_1", "tbl_choppers", "TBL-ChpSy1:Chop-BWC-101", -18.0, 1), chopper("bwc_2", "tbl_choppers", "TBL-ChpSy1:Chop-BWC-102", -17.9, 1),
            motor("camera_stage", "tbl_motion", "TBL-TBL:MC-Pos-303:Mtr"),
            *[group(f"filter_{n}", "NXfilter", [log("position_readback", "tbl_motion", f"TBL-FilChg:MC-LinY-0{n}:Mtr.RBV", "mm"),
                                                log("position_setpoint", "tbl_motion", f"TBL-FilChg:MC-LinY-0{n}:Mtr.VAL", "mm")]) for n in (1, 2)],
            monitor("monitor_1", "tbl_beam_monitor", "cbm1", -2.0, [
                group("monitor_1_histogram", "NXdata", [stream("da00", "tbl_beam_monitor", "cbm1", cue_interval=1000, variables=[
                    {"name": "signal", "unit": "counts", "label": "Detector counts", "data_type": "int32", "axes": ["frame_time"], "shape": [4]},
                ], constants=[
                    {"name": "frame_time", "unit": "ns", "label": "Time", "data_type": "int32", "axes": ["frame_time"], "shape": [5],
                     "data": {"first": 0, "last": 71428568, "size": 5}},
                ])]),
            ]),
        ]),
        sample([], [("temperature", None), ("electric_field", ""), ("magnetic_field", "/entry/instrument/camera_stage/value")]),
    ]
    warnings = [
        f"{AT}[2].children[5].config.source: is empty: the link is left out", f"{AT}[2].children[6].config.source: is empty: the link is left out",
        f"{AT}[7].config.items[0]: is there twice: it is written once", f"{AT}[7].config.items[1]: is there twice: it is written once",
        f"{AT}[8].children[3].config.values: is null: an empty text is written",
    ]
    names = ["he3_detector_bank0", "he3_detector_bank1", "timepix3_detector", "ngem_detector", "multiblade_detector", "orca_detector", "bwc_1", "monitor_1"]
    name = "ess/raw/999999_00000006.hdf"
    return start("tbl", 6, f"/{name}", template, [user("Ada Person", facility_user_id=None)], expected(
        name, warnings, {"/entry/sample/magnetic_field": "/entry/instrument/camera_stage/value"},
        {f"/entry/instrument/{n}": 1 for n in names}, {"/entry/instrument/ngem_detector": [0.0, 0.0, 2.0]},
        # Readers take a detector with logs beside its events, and a camera, for plain groups.
        [f"/entry/instrument/{n}" for n in ("he3_detector_bank0", "he3_detector_bank1", "orca_detector")]))


def estia():
    """A reflectometer: a detector that turns around the sample (a log in the middle of its chain), sources that are not known yet, users who are listed twice."""
    path = "/entry/instrument/multiblade_detector"
    place = [
        text("depends_on", "transformations/distance"),
        group("transformations", "NXtransformations", [
            translation("distance", 4.0, [0.0, 0.0, 1.0], "detector_rotation"),
            moving("detector_rotation", "rotation", "estia_motion", "ESTIA-DtRot:MC-RotZ01:Mtr", "deg", [0.0, 1.0, 0.0], f"{path}/transformations/tilt"),
            rotation("tilt", 0.0, [1.0, 0.0, 0.0], "."),
        ]),
    ]
    blades = ["bottom", "left", "right", "top"]
    flipper = lambda name, origin: log(name, "estia_motion", origin, "", "int32")  # noqa: E731
    person = user("Ada Person")
    template = [
        group("instrument", "NXinstrument", [
            text("name", "ESTIA"), source(36.0), production(),
            panel("multiblade_detector", 1, (4, 8), [events("multiblade_events", "estia_detector", "multiblade")], place),
            chopper("bwc", "estia_choppers", "ESTIA-ChpSy1:Chop-BWC-101", -25.0, 2),
            *[group(f"{slit}_slit", "NXslit", [motor(f"blade_{b}", "estia_motion", f"ESTIA-{pv}:MC-Sl{b[0].upper()}-01:Mtr") for b in blades])
              for slit, pv in (("sample", "SpSl"), ("virtual_source", "VSSl"))],
            flipper("spin_flipper_polarizer", "tbd1"), flipper("spin_flipper_analyzer", "tbd2"),
            group("selene", "NXguide", [
                dataset("segments", ["upstream", "middle", "downstream"], "string"), dataset("m_value", [[4.0, 3.5], [3.5, 4.0]], "float"),
                dataset("coated", [True, False, True], "bool"), dataset("reserve", [], "double", units="m"),
            ]),
        ]),
        sample([motor("goniometer", "estia_motion", "ESTIA-SpRot:MC-RotZ01:Mtr", "deg")])
    ]
    warnings = [
        f"{AT}[0].children[7].children[0].config.value_units: units are empty and written so: without dimension",
        f"{AT}[0].children[8].children[0].config.value_units: units are empty and written so: without dimension",
        f"{AT}[8].attributes[1]: the attribute \"NX_class\" is there twice: this one is written",
        f"{AT}[9]: the same group is there twice: it is written once",
    ]
    curator = group("user_curator", "NXuser", [text("name", "C. Urator")], [attribute("NX_class", "NXuser")])
    return start("estia", 7, "./estia/999999_00000007.hdf", template, [person, curator, user("Ada Person")], expected(
        "estia/999999_00000007.hdf", warnings, {"/entry/multiblade_events": f"{path}/multiblade_events"}, {path: 3, "/entry/instrument/bwc": 1}))


def freia():
    """A reflectometer that is being built: place-holders as sources, streams that stand directly in source and NXdata, links through links that lead to nothing."""
    path = "/entry/instrument/multiblade_detector"
    names = ["WBC-1", "WBC-2", "WFM-1", "FOC-1", "FOC-2"]
    mode = [("beam_cycle_id", "DbufCycleId-I", "dimensionless"), ("beam_state", "DbufBState-I", "dimensionless"), ("bunch_length", "DbufBLen-I", "us"),
            ("energy", "DbufBEn-I", "keV"), ("current", "DbufBCurr-I", "mA")]
    more = [stream("f144", "freia_misc_devices", "MISSING3"), *[log(n, "tn_data_general", f"TD-M:Ctrl-EVR-1:{pv}", u) for n, pv, u in mode]]
    inside = lambda n: [  # noqa: E731
        events(f"monitor_{n}_events", "freia_beam_monitor", f"cbm{n}"),
        group(f"monitor_{n}_histogram", "NXdata", [stream("da00", "freia_beam_monitor", f"cbm{n}", variables=[
            {"name": "signal", "unit": "counts", "data_type": "int64", "axes": ["time_of_arrival"], "shape": [3]},
        ], constants=[{"name": "time_of_arrival", "unit": "ns", "axes": ["time_of_arrival"]}])]),
    ]
    template = [
        group("data", "NXdata", [stream("f144", "freia_misc_devices", "MISSING4")]),
        group("instrument", "NXinstrument", [
            text("name", "FREIA"), source(22.8, more),
            group("heavy_shutter", "NXlog", [stream("f144", "freia_misc_devices", "MISSING2")]),
            group("light_shutter", "NXlog", [stream("f144", "freia_misc_devices", "MISSING1")]),
            *[chopper(f"{n}_chopper", "freia_choppers", f"TODO{10 * k}", -16.0 + k, 1 + k % 2) for k, n in enumerate(names)],
            panel("multiblade_detector", 1, (4, 8), [events("events", "freia_detector", "multiblade")], placed(path, 3.0)),
            *[monitor(f"monitor_{n}", "freia_beam_monitor", f"cbm{n}", -5.0 + n, inside(n)) for n in (1, 2)],
        ]),
        sample([]),
        group("peer", "NXcollection", [
            link("first", "../instrument/detector_table/angle"), link("second", "first"), link("detector", "../instrument/multiblade_detector"), link("counts", "detector/events"),
        ]),
    ]
    late = "is missing: the values are those of the first message"
    warnings = [
        *[f"{AT}[1].children[{n}].children[2].children[0].config.constants[0].data: {late}" for n in (10, 11)],
        f"{AT}[3].children[0].config.source: \"../instrument/detector_table/angle\" is not in the structure: the link is left out",
        f"{AT}[3].children[1].config.source: \"first\" is not in the structure: the link is left out",
    ]
    links = {"/entry/peer/detector": path, "/entry/peer/counts": f"{path}/events"}
    chains = {f"/entry/instrument/{n}_chopper": 1 for n in names} | {path: 1, "/entry/instrument/monitor_2": 1}
    name = "freia/2026/999999_00000008.hdf"
    plain = [f"/entry/instrument/monitor_{n}{more}" for n in (1, 2) for more in ("", f"/monitor_{n}_histogram")]
    return start("freia", 8, f"//freia/./2026/{name.rsplit('/', 1)[1]}", template, [user("Ada Person")],
                 expected(name, warnings, links, chains, {path: [0.0, 0.0, 3.0]}, [*plain, "/entry/data"]))


def magic():
    """A single-crystal diffractometer: banks on topics of their own with one source name, slits of four blades, alarms listed by hand, `value` for `values`."""
    banks = []
    for name, first, degrees in (("magic_detector_pa", 1, 90.0), ("magic_detector_fr", 33, 20.0)):
        path = f"/entry/instrument/{name}"
        place = [
            text("depends_on", f"{path}/transformations/distance"),
            group("transformations", "NXtransformations", [
                translation("distance", 1.2, [0.0, 0.0, 1.0], f"{path}/transformations/angle"), rotation("angle", degrees, [0.0, 1.0, 0.0], "."),
            ]),
        ]
        banks.append(panel(name, first, (4, 8), [events(f"{name}_events", name, "magic")], place))
    blades = [("bottom", "SlZm"), ("left", "SlYp"), ("right", "SlYm"), ("top", "SlZp")]
    slits = [group(f"collimation_slit_set_{n}", "NXslit", [motor(f"blade_{b}", "magic_motion", f"{'TODO-' if n == 2 else ''}MAGIC-ColSl{n}:MC-{pv}-01") for b, pv in blades])
             for n in (1, 2)]
    temperature = group("temperature", "NXlog", [
        stream("f144", "magic_sample_env", "MAGIC-SE:T-1", dtype="double", value_units="K", enable_alarm_info=False, enable_epics_con_info=False),
        stream("al00", "magic_sample_env", "MAGIC-SE:T-1"), stream("ep01", "magic_sample_env", "MAGIC-SE:T-1"),
    ])
    histogram = group("monitor_histogram", "NXdata", [stream("hs01", "magic_histograms", "cbm1", data_type="int64", shape=[
        {"size": 4, "label": "time_of_flight", "unit": "ns", "edges": [0.0, 10.0, 20.0, 30.0, 40.0], "dataset_name": "time_of_flight"},
    ])])
    polarizer = {"module": "dataset", "config": {"name": "type", "value": "supermirror", "type": "string"},
                 "attributes": [{"name": "units", "dtype": "string", "value": None}, {"name": "note", "value": "not in the beam"}]}
    template = [
        group("instrument", "NXinstrument", [
            text("name", "MAGIC"), source(158.9), *banks, chopper("bandwidth_chopper", "magic_choppers", "MAGIC-ChpSy1:Chop-BC-201", -120.0, 1), *slits,
            motor("collimator_oscillation", "magic_motion", "placeholder"), group("polarizer", "NXpolarizer", [polarizer]),
            monitor("monitor_1", "magic_beam_monitor", "cbm1", -1.5, [events("monitor_1_events", "magic_beam_monitor", "cbm1"), histogram]),
        ]),
        sample([temperature, log("field", "magic_sample_env", "MAGIC-SE:B-1", "T")], [("magnetic_field", "/entry/sample/field")]),
        {"module": "mdat"},
    ]
    template[1]["children"][1]["children"][0]["config"]["array_size"] = 3
    warnings = [
        f"{AT}[0].children[8].children[0].attributes[0].value: units without a text are left out",
        f"{AT}[2].config.items: names neither start_time nor end_time: nothing is written",
    ]
    chains = {"/entry/instrument/magic_detector_pa": 2, "/entry/instrument/magic_detector_fr": 2, "/entry/instrument/monitor_1": 1}
    links = {"/entry/sample/magnetic_field": "/entry/sample/field", "/entry/magic_detector_pa_events": "/entry/instrument/magic_detector_pa/magic_detector_pa_events"}
    name = "magic/999999_00000009.hdf"
    return start("magic", 9, name, template, [user("Ada Person"), user("Bo Person", affiliation="")],
                 expected(name, warnings, links, chains, {"/entry/instrument/magic_detector_pa": [1.2, 0.0, 0.0]}, ["/entry/instrument/monitor_1"]))


def beer():
    """An engineering diffractometer: two banks on one topic, a hexapod, fast samples, two-dimensional histograms, texts of NICOS' cache."""
    def bank(name, origin, first, x):
        path = f"/entry/instrument/{name}"
        place = [
            text("depends_on", "transformations/side"),
            group("transformations", "NXtransformations", [translation("side", x, [1.0, 0.0, 0.0], ".")]),
        ]
        return panel(name, first, (2, 4), [events(f"{name}_events", "beer_detector", origin)], place)

    axes = [("position_x", "mm"), ("position_y", "mm"), ("position_z", "mm"), ("rotary_stage", "degrees")]
    hexapod = group("symetrie_beer_hexapod", "NXpositioner", [motor(n, "beer_motion", f"TODO{52 + 3 * k}", u) for k, (n, u) in enumerate(axes)])
    switch = group("bi_spectral_switch", "NXmirror", [
        log("value", "beer_motion", "TODO47", "dimensionless", "int32"), text("depends_on", "transformations/position_y"),
        group("transformations", "NXtransformations", [
            moving("position_y", "translation", "beer_motion", "TODO48", "m", [0.0, 1.0, 0.0], "position_z"),
            translation("position_z", -150.0, [0.0, 0.0, 1.0], "."),
        ]),
    ])
    map_ = group("diffraction_map", "NXdata", [stream("da00", "beer_histograms", "map", cue_interval=100, chunk_size=[16], title="modulation", variables=[
        {"name": "signal", "unit": "counts", "data_type": "double", "axes": ["d", "time"], "shape": [2, 3]},
        {"name": "signal_errors", "unit": "counts", "data_type": "double", "axes": ["d", "time"], "shape": [2, 3]},
    ], constants=[
        {"name": "d", "unit": "angstrom", "data_type": "double", "axes": ["d"], "shape": [3]},
        {"name": "frame", "unit": "", "data_type": "int32", "data": [0, 1, 2]},
    ], attributes=[{"name": "signal", "data": "signal"}, {"name": "axes", "data": ["d", "frame"]}, {"name": "version", "data": 2, "dtype": "int32"}])])
    template = [
        group("instrument", "NXinstrument", [
            text("name", "BEER"), source(158.0), bank("beer_detector_s2", "detector_a", 1, -2.0), bank("beer_detector_n2", "detector_b", 9, 2.0), production(),
            chopper("mca_chopper", "beer_choppers", "TODO35", -151.0, 4), chopper("psc1_chopper", "beer_choppers", "TODO26", -151.5, 8), switch, hexapod,
            group("slit_set_3", "NXslit", [log("x_gap", "beer_motion", "beer_source_x", "mm"), log("y_gap", "beer_motion", "beer_source_y", "mm")]),
            group("deformation_rig", "NXsensor", [
                group("force", "NXlog", [stream("se00", "beer_sample_env", "BEER-SE:Force", type="int16", value_units="N")]),
                group("program", "NXlog", [stream("ns10", "beer_nicos", "nicos/rig/step", dtype="int32", units="")]),
            ]),
            map_,
        ]),
        sample([]),
        group("static_data", "NXcollection", [
            dataset("calibration", [[1.0, None], [2.0, 0.5]], "double", units="mm"), dataset("mask", [0, 1, 1], "uint8"), text("notes", ["first", "zweite Zeile", ""]),
            link("rig", "../instrument/deformation_rig"), link("self", "."),
        ]),
    ]
    template[2]["children"][4]["config"]["source"] = "self"
    warnings = [
        f"{AT}[0].children[10].children[1].children[0].config.units: units are empty and written so: without dimension",
        f"{AT}[0].children[11].children[0].config.constants[0].data: is missing: the values are those of the first message",
        f"{AT}[0].children[11].children[0].config.constants[1].unit: units are empty and written so: without dimension",
        f"{AT}[2].children[4].config.source: \"self\" leads in a circle, or through too many links: the link is left out",
    ]
    chains = {"/entry/instrument/beer_detector_s2": 1, "/entry/instrument/bi_spectral_switch": 2, "/entry/instrument/mca_chopper": 1}
    links = {"/entry/static_data/rig": "/entry/instrument/deformation_rig", "/entry/beer_detector_n2_events": "/entry/instrument/beer_detector_n2/beer_detector_n2_events"}
    name = "ess/data/beer/2026/999999/999999_00000010.hdf"
    return start("beer", 10, f"/{name}", template, [user("Ada Person")], expected(
        name, warnings, links, chains, {"/entry/instrument/beer_detector_s2": [-2.0, 0.0, 0.0]}, ["/entry/instrument/diffraction_map"]))


def main():
    for make in (odin, tbl, estia, freia, magic, beer):
        made = json.dumps(make(), ensure_ascii=False, separators=(",", ":"))
        (Path(sys.argv[1]) / f"{make.__name__}.json").write_text(made + "\n", encoding="utf-8")


main()
