// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package command is the command line of Drover: one file per family of
// subcommands, all of them clients of the HTTP API but those that read the files
// of a stopped agent. It owns flags, tables, exit codes (see docs/cli.md), the
// monitors that follow evaluations and deployments, and the completion of
// shells. It holds no rules of the orchestrator and never reaches into a
// running server. Only cmd/drover may import it.
package command
