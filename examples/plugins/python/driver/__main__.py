# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""driver-python: a task driver for Drover that uses none of Drover's Go code.

It implements the gRPC services of sdk/proto and go-plugin's handshake, as described
in docs/plugins/other-languages.md. This file decides what the process is, process.py
serves the plugin, service.py is the driver and runner.py the parent of one task.
"""

import os
import sys

from driver import runner

NAME = "driver-python"
VERSION = "0.1.0"

# The handshake. The host sets the cookie, so that a plugin that a user starts can
# print what it is instead of waiting for a host.
COOKIE_KEY = "DROVER_PLUGIN_COOKIE"
COOKIE_VALUE = "6b8e0f3d7a2c4e51b9d4c7f1a0e63528"


def main():
    if len(sys.argv) == 3 and sys.argv[1] == runner.COMMAND:
        return runner.run(sys.argv[2])
    if os.environ.get(COOKIE_KEY) != COOKIE_VALUE:
        print(f"{NAME} is a plugin of drover and does nothing by itself; put it into the agent's plugin_dir", file=sys.stderr)
        return 1
    # gRPC takes long to load, and neither the parent of a task nor a user needs it.
    import asyncio

    from driver import process

    asyncio.run(process.serve(NAME, VERSION))
    return 0


sys.exit(main())
