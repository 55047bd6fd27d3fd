#!/bin/sh
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Writes driverpb and pluginpb from the frozen .proto files beside this script, with
# the generators of sdk/proto/generate.sh. It was run once; it is here to be read.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install "google.golang.org/protobuf/cmd/protoc-gen-go@$(go list -m -f '{{.Version}}' google.golang.org/protobuf)"
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
module=github.com/drover-project/drover/core/pluginhost/testdata/oldplugin
for f in driver.proto plugin.proto; do
  PATH=$bin:$PATH protoc -I . --go_out=. --go_opt=module=$module --go-grpc_out=. --go-grpc_opt=module=$module "$f"
done
