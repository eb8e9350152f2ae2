"""Has files of Fullcount validated by what the field validates NeXus with: punx, nxvalidate, chexus.

punx and nxvalidate (of nexusformat) bring the NeXus definitions along; one that cannot be loaded, or has no definitions,
is skipped, with the reason. Warnings are listed: the definitions ask for them to be looked at. Ends with status 1 if
one of the three finds an error; chexus knows nothing less than that. Findings that stay, each with its reason, are
in KNOWN and listed too. Source: docs/files.md.
"""

import argparse
import collections
import importlib.metadata
import logging
import pathlib
import sys

# What the definitions and the readers do not agree about: end of the message, and why the file is as it is.
KNOWN = {
    "NXevent_data is an invalid class in NXdetector":
        "scippnexus, Mantid and the writer of ESS have it there; the definitions name NXinstrument only",
    "NXevent_data is an invalid class in NXentry":
        "Mantid looks for it there; the definitions allow it in NXsnsevent only",
    "NXoff_geometry is an invalid class in NXdetector":
        "pixel_shape is this class by the definition of NXdetector, in a <choice>, which nxvalidate does not read",
}


def known(error):
    """Why an error stays, if it does."""
    return next((why for end, why in KNOWN.items() if error.endswith(end)), None)


def chexus(path):
    import chexus

    reader = chexus.read_hdf5(path)
    tree = next(reader)
    validators = chexus.validators.base_validators(has_scipp=True)
    results = chexus.validate(tree, validators=validators)
    found = [
        f"{result.validator.name} @ {violation.format()}"
        for result in results.values()
        for violation in result.violations
    ]
    return found, []


def nxvalidate(path):
    from nexusformat.nexus import validate

    definitions = validate.Validator().definitions
    if not any(pathlib.Path(str(definitions)).glob("base_classes/NXentry.nxdl.xml")):
        raise ImportError(f"nexusformat has no definitions in {definitions}")
    lines = []

    class Listen(logging.Handler):
        def emit(self, record):
            lines.append((record.levelno, record.getMessage().strip()))

    # The definitions say NX_DATE_TIME of cue_timestamp_zero, which has units and an origin as every other time of an
    # NXevent_data. The validator ends with an exception at a date that is no text; here it is told that it is none.
    is_date = validate.is_valid_iso8601
    validate.is_valid_iso8601 = lambda value: isinstance(value, str) and is_date(value)
    validate.logger.handlers = [Listen()]
    validate.logger.setLevel(logging.WARNING)
    counts = validate.validate_file(path)
    if counts is None:
        return [words for level, words in lines if level == logging.ERROR] or ["not validated"], []
    errors, warnings, place = [], [], ""
    for level, words in lines:
        if level == logging.ERROR:
            errors.append(f"{place}: {words}")
        elif level == logging.WARNING:
            warnings.append(f"{place}: {words}")
        else:
            place = words
    assert counts == (len(warnings), len(errors)), "every finding was logged"
    return errors, warnings


def punx(path):
    from punx import cache_manager, validate

    # The newest of those that come with it; others would have to be fetched.
    manager = cache_manager.CacheManager()
    there = [name for name in ("v2018.5", "v3.3") if name in manager.all_file_sets]
    if not there:
        raise ImportError("punx has no definitions")
    validator = validate.Data_File_Validator(there[0])
    validator.validate(path)
    listed = {"ERROR": [], "WARN": []}
    for finding in validator.validations:
        if str(finding.status) in listed:
            found = f"{finding.h5_address}: {finding.test_name}: {finding.comment}"
            listed[str(finding.status)].append(found)
    validator.close()
    return listed["ERROR"], listed["WARN"]


TOOLS = {"punx": (punx, "punx"), "nxvalidate": (nxvalidate, "nexusformat"), "chexus": (chexus, "chexus")}


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("files", nargs="+")
    faults = 0
    for name, (tool, package) in TOOLS.items():
        for path in arguments.parse_args().files:
            try:
                errors, warnings = tool(path)
            except ImportError as reason:
                print(f"skipped: {name}: {reason}")
                break
            stay = [f"{error} ({known(error)})" for error in errors if known(error)]
            errors = [error for error in errors if not known(error)]
            version = importlib.metadata.version(package)
            print(f"{name} {version}: {pathlib.Path(path).name}: {len(errors)} errors, {len(warnings)} warnings")
            for what, found in (("error", errors), ("known", stay), ("warning", warnings)):
                for words, times in collections.Counter(found).items():
                    print(f"  {what}: {words}" + (f" ({times} times)" if times > 1 else ""))
            faults += len(errors)
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
