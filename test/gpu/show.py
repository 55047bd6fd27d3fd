# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""Prints one thing of the JSON on its standard input; see check.sh."""
import json
import sys

what, *arg = sys.argv[1:]
body = json.load(sys.stdin)
if what == "devices":
    for group in body["NodeResources"]["Devices"] or []:
        for one in group["Instances"]:
            health = "healthy" if one["Healthy"] else "unhealthy: " + one["HealthDescription"]
            print(group["Vendor"], group["Type"], group["Name"], one["ID"], health, sep=" ")
elif what == "attributes":
    for group in body["NodeResources"]["Devices"] or []:
        for name, value in sorted((group["Attributes"] or {}).items()):
            print("     ", name, *(str(v) for k, v in value.items() if v not in (None, "")))
elif what == "allocs":
    for one in body or []:
        if arg[0] in ("any", one["ClientStatus"]):
            print(one["ID"])
elif what == "plugin":
    rows = body if isinstance(body, list) else body.get("Plugins") or []
    for one in rows:
        if arg[0] in (one.get("Name"), one.get("Plugin"), one.get("ID")):
            print(one.get("PID") or one.get("Pid") or 0)
            break
