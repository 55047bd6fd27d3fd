# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""Prints the differences of a comparison with the reasons for them.

usage: reasons.py REASONS COMPARE_LOG [strict]
With strict a difference without a reason is a failure.
"""
import os, re, sys

why = {}
for line in open(sys.argv[1]):
    line = line.strip()
    if line and not line.startswith("#"):
        names, reason = line.split(":", 1)
        for n in names.split(): why[n] = reason.strip()
unknown = 0
for line in open(sys.argv[2]):
    m = re.match(r"(\d+)-(\S+?): (.*)", line.strip())
    if not m:
        print(line.strip()); continue
    reason = why.get(m[1])
    unknown += reason is None
    print(f"{m[1]} {m[2]}: {reason or 'NOT EXPECTED'}\n      {m[3][:200]}")
if unknown:
    print(f"{unknown} of them have no reason in test/compat/{os.path.basename(sys.argv[1])}: look at these first")
    if sys.argv[3:] == ["strict"]: sys.exit(1)
