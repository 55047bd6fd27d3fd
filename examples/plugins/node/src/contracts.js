// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// The contracts, read from the .proto files that esbuild puts into the program as text.
"use strict";

const grpc = require("@grpc/grpc-js");
const loader = require("@grpc/proto-loader");
const protobuf = require("protobufjs");

const root = new protobuf.Root();
for (const known of ["duration", "timestamp"]) {
  root.addJSON(protobuf.common.get(`google/protobuf/${known}.proto`).nested);
}
for (const text of [require("plugin.proto"), require("stats.proto")]) {
  protobuf.parse(text, root, { keepCase: true });
}
root.resolveAll();

// Numbers of 64 bits are given as numbers: what is measured here is far below 2^53.
const packages = grpc.loadPackageDefinition(
  loader.fromJSON(root.toJSON({ keepComments: false }), { keepCase: true, longs: Number, enums: String, defaults: true }),
);

exports.plugin = packages.drover.plugin.v1.Plugin;
exports.stats = packages.drover.stats.v1.Stats;
