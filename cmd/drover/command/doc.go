// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package command is the command line of Drover, with one file per family of
// subcommands. The commands are clients of the HTTP API, except those that read the
// files of a stopped agent. It owns flags, tables, exit codes (see docs/cli.md), the
// monitors of evaluations and deployments, and shell completion. It contains no
// orchestration logic and never accesses a running server other than through the
// API. Only cmd/drover may import it.
package command
