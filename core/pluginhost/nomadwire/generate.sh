#!/bin/sh
# Copyright (c) The Drover Authors
# SPDX-License-Identifier: MPL-2.0
#
# Writes core/pluginhost/internal/nomadpb from the .proto files beside this
# script. Needs protoc (Debian: apt-get install protobuf-compiler).
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
GOBIN=$bin go install "google.golang.org/protobuf/cmd/protoc-gen-go@$(go list -m -f '{{.Version}}' google.golang.org/protobuf)"
GOBIN=$bin go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
out=../internal/nomadpb
mkdir -p "$out"
for f in */*.proto; do
  PATH=$bin:$PATH protoc -I . \
    --go_out="$out" --go_opt=module=github.com/drover-project/drover/core/pluginhost/internal/nomadpb \
    --go-grpc_out="$out" --go-grpc_opt=module=github.com/drover-project/drover/core/pluginhost/internal/nomadpb "$f"
done
