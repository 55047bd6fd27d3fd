# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""Prints the differences of a comparison with the reasons for them.

usage: reasons.py REASONS COMPARE_LOG [strict]
With strict a difference without a reason is a failure. A reason is for numbers of records, and
for those of their differences that begin with one of the places that follow the numbers, such as
.Topologies; without places it is for all of them.
"""
import os, re, sys

why = {}
for line in open(sys.argv[1]):
    line = line.strip()
    if line and not line.startswith("#"):
        names, reason = line.split(":", 1)
        places = [n for n in names.split() if n[0] in ".["]
        for n in names.split():
            if n not in places: why.setdefault(n, []).append((places, reason.strip()))
unknown = 0
for line in open(sys.argv[2]):
    m = re.match(r"(\d+)-(\S+?): (.*)", line.strip())
    if not m:
        print(line.strip()); continue
    for difference in re.split(r"; (?=\.|\[|header |status |error text)", m[3]):
        reason = next((r for places, r in why.get(m[1], []) if not places or any(difference.startswith(p) for p in places)), None)
        unknown += reason is None
        print(f"{m[1]} {m[2]}: {reason or 'NOT EXPECTED'}\n      {difference[:200]}")
if unknown:
    print(f"{unknown} of them have no reason in test/compat/{os.path.basename(sys.argv[1])}: look at these first")
    if sys.argv[3:] == ["strict"]: sys.exit(1)
