"""Has files of Fullcount validated by what the field validates NeXus with: punx, nxvalidate, chexus.

punx and nxvalidate (of nexusformat) bring the NeXus definitions along; one that cannot be set up, for want of itself or
of its definitions, is skipped, with the reason. Warnings are listed: the definitions ask for them to be looked at. Ends
with status 1 if one of the three finds an error; chexus knows nothing less than that. Findings that stay, each with its
place and reason, are in KNOWN and listed too; one that is missing in a file is an error as well, and so is a change of
what nxvalidate does at a time that is a number (UNPATCHED). Source: docs/files.md.
"""

import argparse
import collections
import importlib.metadata
import logging
import pathlib
import re
import sys
import traceback

# What the definitions and the readers do not agree about: tool, the whole error with its place, and why the file is as
# it is. Each stands in every file.
KNOWN = [
    ("nxvalidate", r"/entry/instrument/PANEL/PANEL_events: NXevent_data is an invalid class in NXdetector",
     "scippnexus, Mantid and the writer of ESS have it there; the definitions name NXinstrument only"),
    ("nxvalidate", r"/entry/PANEL_events: NXevent_data is an invalid class in NXentry",
     "Mantid looks for it there; the definitions allow it in NXsnsevent only"),
    ("nxvalidate", r"/entry/instrument/PANEL/pixel_shape: NXoff_geometry is an invalid class in NXdetector",
     "pixel_shape is this class by the definition of NXdetector, in a <choice>, which nxvalidate does not read"),
]

# How nxvalidate ends, without help, at a time that is a number: field, exception, begin of its words.
UNPATCHED = ("cue_timestamp_zero", TypeError, "Parser must be a string or character stream, not ")


def is_known(pattern, error):
    """True if this is an error of KNOWN; PANEL is one name in all of it."""
    named = pattern.replace("PANEL", "(?P<panel>[A-Za-z0-9_-]+)", 1).replace("PANEL", "(?P=panel)")
    return re.fullmatch(named, error) is not None


def sorted_out(tool, errors):
    """Errors that stay, with why, and those that do not: one that should stay and is missing is among them."""
    stay, wrong = [], list(errors)
    for pattern, why in [(pattern, why) for of, pattern, why in KNOWN if of == tool]:
        found = [error for error in wrong if is_known(pattern, error)]
        wrong = [error for error in wrong if error not in found]
        stay += [f"{error} ({why})" for error in found]
        if not found:
            wrong.append(f"no longer found, to be taken out of KNOWN and docs/files.md: {pattern}")
    return stay, wrong


def chexus():
    import chexus

    validators = chexus.validators.base_validators(has_scipp=True)

    def check(path):
        # The file is open as long as this is kept.
        reader = chexus.read_hdf5(path)
        tree = next(reader)
        results = chexus.validate(tree, validators=validators)
        found = [
            f"{result.validator.name} @ {violation.format()}"
            for result in results.values()
            for violation in result.violations
        ]
        return found, []

    return check


def nxvalidate():
    from nexusformat.nexus import validate

    definitions = validate.Validator().definitions
    if not any(pathlib.Path(str(definitions)).glob("base_classes/NXentry.nxdl.xml")):
        raise ImportError(f"nexusformat has no definitions in {definitions}")
    lines = []

    class Listen(logging.Handler):
        def emit(self, record):
            lines.append((record.levelno, record.getMessage().strip()))

    validate.logger.handlers = [Listen()]
    validate.logger.setLevel(logging.WARNING)
    is_date = validate.is_valid_iso8601

    def check(path):
        # The definitions say NX_DATE_TIME of cue_timestamp_zero, which has units and an origin as every other time of
        # an NXevent_data. The validator ends with an exception at a date that is no text; here it is told that it is none.
        validate.is_valid_iso8601 = lambda value: isinstance(value, str) and is_date(value)
        lines.clear()
        try:
            counts = validate.validate_file(path)
        finally:
            validate.is_valid_iso8601 = is_date
        if counts is None:
            return [words for level, words in lines if level == logging.ERROR] or ["not validated"], []
        errors, warnings, place = [], [], ""
        for level, words in lines:
            if level == logging.ERROR:
                errors.append(f"{place}: {words}")
            elif level == logging.WARNING:
                warnings.append(f"{place}: {words}")
            else:
                place = words.split(": ", 1)[-1]
        assert counts == (len(warnings), len(errors)), "every finding was logged"
        return errors, warnings

    return check


def unpatched(path):
    """What is wrong with what nxvalidate does without help; nothing if it ends as docs/files.md says."""
    from nexusformat.nexus import validate

    field, kind, begin = UNPATCHED
    try:
        validate.validate_file(path)
    except Exception as ended:
        frames = [frame.f_locals for frame, _ in traceback.walk_tb(ended.__traceback__)]
        place = next((each["field"].nxpath for each in reversed(frames) if "field" in each), "")
        if type(ended) is kind and str(ended).startswith(begin) and place.endswith(f"/{field}"):
            print(f"  known: {place}: {kind.__name__}: {ended} (nxvalidate without help)")
            return []
        return [f"without help nxvalidate ends with {ended!r} at {place}, not with {kind.__name__} at {field}"]
    return [f"nxvalidate takes {field} without help: take it out of here and of docs/files.md"]


def punx():
    from punx import cache_manager, validate

    # The newest of those that come with it; others would have to be fetched.
    manager = cache_manager.CacheManager()
    there = [name for name in ("v2018.5", "v3.3") if name in manager.all_file_sets]
    if not there:
        raise ImportError("punx has no definitions")
    validate.Data_File_Validator(there[0])

    def check(path):
        validator = validate.Data_File_Validator(there[0])
        validator.validate(path)
        listed = {"ERROR": [], "WARN": []}
        for finding in validator.validations:
            if str(finding.status) in listed:
                found = f"{finding.h5_address}: {finding.test_name}: {finding.comment}"
                listed[str(finding.status)].append(found)
        validator.close()
        return listed["ERROR"], listed["WARN"]

    return check


TOOLS = {"punx": (punx, "punx"), "nxvalidate": (nxvalidate, "nexusformat"), "chexus": (chexus, "chexus")}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("files", nargs="+")
    files = arguments.parse_args().files
    faults = 0
    for name, (set_up, package) in TOOLS.items():
        try:
            check = set_up()
            version = importlib.metadata.version(package)
        except Exception as reason:
            print(f"skipped: {name}: {type(reason).__name__}: {reason}")
            continue
        for path in files:
            errors, warnings = check(path)
            stay, errors = sorted_out(name, errors)
            print(f"{name} {version}: {pathlib.Path(path).name}: {len(errors)} errors, {len(warnings)} warnings")
            for what, found in (("error", errors), ("known", stay), ("warning", warnings)):
                for words, times in collections.Counter(found).items():
                    print(f"  {what}: {words}" + (f" ({times} times)" if times > 1 else ""))
            faults += len(errors)
        if name == "nxvalidate":
            wrong = unpatched(files[0])
            print("".join(f"  error: {words}\n" for words in wrong), end="")
            faults += len(wrong)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
