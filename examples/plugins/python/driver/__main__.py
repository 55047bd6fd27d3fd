# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""driver-python: a task driver for Drover that uses none of Drover's Go code.

It implements the gRPC services of sdk/proto and go-plugin's handshake, as described
in docs/plugins/other-languages.md. This file contains the handshake, the socket and
the service Plugin; service.py is the driver and runner.py the parent of one task.
"""

import asyncio
import os
import signal
import sys
import tempfile

import grpc

from driver import runner, service
from driver.v1 import driver_pb2_grpc
from plugin.v1 import plugin_pb2, plugin_pb2_grpc

NAME = "driver-python"
VERSION = "0.1.0"

# The handshake. The host sets the cookie, so that a plugin that a user starts can
# print what it is instead of waiting for a host.
COOKIE_KEY = "DROVER_PLUGIN_COOKIE"
COOKIE_VALUE = "6b8e0f3d7a2c4e51b9d4c7f1a0e63528"
CORE_PROTOCOL = 1  # of go-plugin
PROTOCOL = 1  # of Drover, apart from the contracts


class Plugin(plugin_pb2_grpc.PluginServicer):
    """Describes the process. It is also the ping, so it must never block."""

    async def Info(self, request, context):
        kind = plugin_pb2.Kind(name="driver", version=1)
        return plugin_pb2.InfoResponse(name=NAME, version=VERSION, kinds=[kind])


def controller(stop):
    """go-plugin's service with which a host asks the process to exit."""

    async def shutdown(request, context):
        stop.set()
        return b""  # google.protobuf.Empty

    handler = grpc.unary_unary_rpc_method_handler(shutdown)  # bytes in, bytes out
    return grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": handler})


async def serve():
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # The process must survive the end of the agent's terminal: the next agent
    # reattaches to it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 16 << 20)])
    plugin_pb2_grpc.add_PluginServicer_to_server(Plugin(), server)
    driver_pb2_grpc.add_DriverServicer_to_server(service.Driver(), server)
    server.add_generic_rpc_handlers((controller(stop),))

    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or None
    path = tempfile.mktemp(prefix="plugin", dir=folder)  # bind creates the socket
    server.add_insecure_port("unix:" + path)
    await server.start()
    # This line is the only one on standard output.
    print(f"{CORE_PROTOCOL}|{PROTOCOL}|unix|{path}|grpc", flush=True)
    await stop.wait()
    await server.stop(grace=1)
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def main():
    if len(sys.argv) == 3 and sys.argv[1] == runner.COMMAND:
        return runner.run(sys.argv[2])
    if os.environ.get(COOKIE_KEY) != COOKIE_VALUE:
        print(f"{NAME} is a plugin of drover and does nothing by itself; put it into the agent's plugin_dir", file=sys.stderr)
        return 1
    asyncio.run(serve())
    return 0


sys.exit(main())
