# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
"""The plugin's process: the socket, the line of the handshake and the service Plugin."""

import asyncio
import os
import signal
import tempfile

import grpc

from driver import service
from driver.v1 import driver_pb2_grpc
from plugin.v1 import plugin_pb2, plugin_pb2_grpc

CORE_PROTOCOL = 1  # of go-plugin
PROTOCOL = 1  # of Drover, apart from the contracts


class Plugin(plugin_pb2_grpc.PluginServicer):
    """Describes the process. It is also the ping, so it must never block."""

    def __init__(self, name, version):
        self.name, self.version = name, version

    async def Info(self, request, context):
        kind = plugin_pb2.Kind(name="driver", version=1)
        return plugin_pb2.InfoResponse(name=self.name, version=self.version, kinds=[kind])


def controller(stop):
    """go-plugin's service with which a host asks the process to exit."""

    async def shutdown(request, context):
        stop.set()
        return b""  # google.protobuf.Empty

    handler = grpc.unary_unary_rpc_method_handler(shutdown)  # bytes in, bytes out
    return grpc.method_handlers_generic_handler("plugin.GRPCController", {"Shutdown": handler})


async def serve(name, version):
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    # The process must survive the end of the agent's terminal: the next agent
    # reattaches to it.
    signal.signal(signal.SIGHUP, lambda *_: None)
    loop.add_signal_handler(signal.SIGTERM, stop.set)

    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 16 << 20)])
    plugin_pb2_grpc.add_PluginServicer_to_server(Plugin(name, version), server)
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
