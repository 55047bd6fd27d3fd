// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// The process: cookie, socket, handshake and shutdown, as docs/plugins/other-languages.md
// describes them. The collector is in lookup.js.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const grpc = require("@grpc/grpc-js");
const contracts = require("./contracts");
const { Lookup } = require("./lookup");

const NAME = "stats-lookup";
const VERSION = "0.1.0";

// The handshake. The host sets the cookie, so that a plugin that a user starts can say what
// it is instead of waiting for a host.
const COOKIE_KEY = "DROVER_PLUGIN_COOKIE";
const COOKIE_VALUE = "6b8e0f3d7a2c4e51b9d4c7f1a0e63528";
const CORE_PROTOCOL = 1; // of go-plugin
const PROTOCOL = 1; // of Drover, apart from the contracts

// controller is go-plugin's service with which a host asks the process to exit.
const controller = {
  Shutdown: {
    path: "/plugin.GRPCController/Shutdown",
    requestStream: false,
    responseStream: false,
    requestSerialize: () => Buffer.alloc(0),
    requestDeserialize: () => ({}),
    responseSerialize: () => Buffer.alloc(0), // google.protobuf.Empty
    responseDeserialize: () => ({}),
  },
};

function main() {
  if (process.env[COOKIE_KEY] !== COOKIE_VALUE) {
    console.error(`${NAME} is a plugin of drover and does nothing by itself; put it into the agent's plugin_dir`);
    process.exit(1);
  }
  process.on("SIGHUP", () => {}); // the next agent reattaches to the process
  process.stderr.on("error", () => {}); // nobody reads the logs of a process whose agent was killed

  const server = new grpc.Server({ "grpc.max_receive_message_length": 16 << 20 });
  const socket = path.join(process.env.PLUGIN_UNIX_SOCKET_DIR || os.tmpdir(), `plugin${crypto.randomBytes(6).toString("hex")}`);
  const stop = () => {
    server.tryShutdown(() => process.exit(0));
    setTimeout(() => process.exit(0), 1000); // streams that are still open end with the process
  };
  process.on("SIGTERM", stop);
  process.on("exit", () => fs.rmSync(socket, { force: true }));

  server.addService(contracts.plugin.service, {
    // Info is also the ping, so it must never wait for anything.
    Info: (_, answer) => answer(null, { name: NAME, version: VERSION, kinds: [{ name: "stats", version: 1 }] }),
  });
  server.addService(contracts.stats.service, new Lookup().handlers());
  server.addService(controller, {
    Shutdown: (_, answer) => {
      answer(null, {});
      stop();
    },
  });
  server.bindAsync(`unix:${socket}`, grpc.ServerCredentials.createInsecure(), (err) => {
    if (err) {
      console.error(`listen on ${socket}: ${err.message}`);
      process.exit(1);
    }
    // This line is the only one on standard output.
    fs.writeSync(1, `${CORE_PROTOCOL}|${PROTOCOL}|unix|${socket}|grpc\n`);
  });
}

main();
