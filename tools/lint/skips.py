#!/usr/bin/env python3
"""Collects the tests that tools/check skipped, and compares them with the list of expected skips.

usage: skips.py collect PART BUILD_FOLDER    prints 'part<TAB>test<TAB>reason' for each test that skipped itself in the
                                             last ctest run of BUILD_FOLDER
       skips.py compare FILE [PART...]       reads such lines and prints each reason once; exits 1 if a skip is not in
                                             the list. PART: a part that ran completely; rows of the list that none of
                                             its tests matched are printed too
       skips.py kinds                        prints the kinds of this machine, in the words of the list

The list is expected_skips.txt beside this file; its head describes the format.
"""

import collections
import ctypes
import fnmatch
import os
import pathlib
import re
import sys

LIST = pathlib.Path(__file__).with_name("expected_skips.txt")
# GoogleTest prints 'file.cc:12: Skipped', the reason on the following lines, then '[  SKIPPED ] Suite.Test (0 ms)'.
SKIPPED = re.compile(r"^\S+:\d+: Skipped\n(.*?)\n*^\[  SKIPPED \] (\S+) \(", re.MULTILINE | re.DOTALL)
# Tests that are scripts print this line when they skip a part of themselves.
LEFT_OUT = re.compile(r"^left out: ([^:\n]+): (.+)$", re.MULTILINE)

Skip = collections.namedtuple("Skip", "part test reason")
Row = collections.namedtuple("Row", "kind part test reason")


def collect(part, text):
    for reason, test in SKIPPED.findall(text):
        yield Skip(part, test, " ".join(reason.split()) or "no reason given")
    for test, reason in LEFT_OUT.findall(text):
        yield Skip(part, test, reason)


def has_gpu(devices=pathlib.Path("/dev"), driver="libcuda.so.1"):
    """Returns True if there is a GPU, by the same rule as tests/support/expect.cc."""
    if any(devices.glob("nvidia[0-9]*")):
        return True
    try:
        cuda = ctypes.CDLL(driver)
        count = ctypes.c_int(0)
        return cuda.cuInit(0) == 0 and cuda.cuDeviceGetCount(ctypes.byref(count)) == 0 and count.value > 0
    except (OSError, AttributeError):
        return False


def kinds():
    return {"always", "may", "gpu" if has_gpu() else "no-gpu", "root" if os.geteuid() == 0 else "user"}


def read_rows(text):
    rows = []
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            words = line.split(None, 3)
            if len(words) != 4:
                sys.exit(f"{LIST.name}: four words a line, and this is none: {line}")
            rows.append(Row(*words))
    return rows


def matches(row, skip):
    return (skip.part in row.part.split(",") and fnmatch.fnmatchcase(skip.test, row.test)
            and fnmatch.fnmatchcase(skip.reason, row.reason))


def compare(skips, rows, machine, whole):
    """Returns the skips that no row matches, and the rows (except `may`) that no skip of a part in `whole` matches."""
    rows = [row for row in rows if row.kind in machine]
    unexpected = [skip for skip in skips if not any(matches(row, skip) for row in rows)]
    gone = [Row(row.kind, part, row.test, row.reason) for row in rows if row.kind != "may"
            for part in row.part.split(",") if part in whole
            and not any(matches(row, skip) for skip in skips if skip.part == part)]
    return unexpected, gone


def summary_lines(skips):
    """Yields one line for each part and reason, with the number of tests that gave the reason."""
    tests = collections.defaultdict(list)
    for skip in skips:
        tests[skip.part, skip.reason].append(skip.test)
    for (part, reason), names in sorted(tests.items()):
        more = f" and {len(names) - 1} more tests" if len(names) > 1 else ""
        yield f"{part}: {names[0]}{more}: {reason}"


def main():
    if sys.argv[1:2] == ["collect"] and len(sys.argv) == 4:
        log = pathlib.Path(sys.argv[3]) / "Testing/Temporary/LastTest.log"
        for skip in collect(sys.argv[2], log.read_text(errors="replace") if log.exists() else ""):
            print("\t".join(skip))
        return 0
    if sys.argv[1:2] == ["kinds"]:
        print(*sorted(kinds()))
        return 0
    if sys.argv[1:2] != ["compare"] or len(sys.argv) < 3:
        sys.exit(__doc__)
    lines = pathlib.Path(sys.argv[2]).read_text().splitlines()
    skips = [Skip(*line.split("\t", 2)) for line in lines]
    unexpected, gone = compare(skips, read_rows(LIST.read_text()), kinds(), sys.argv[3:])
    for line in summary_lines(skips):
        print(f"skipped: {line}")
    for row in gone:
        print(f"no longer skipped, so take it out of {LIST.name}: {' '.join(row)}")
    for line in summary_lines(unexpected):
        print(f"unexpected skip ({LIST.name} does not have it): {line}")
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
