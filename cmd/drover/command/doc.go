// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package command is the command line of Drover: one file per subcommand, all
// of them clients of the HTTP API. It owns flags, tables, exit codes (see
// docs/cli.md) and the monitors that follow evaluations and deployments. It
// holds no rules of the orchestrator and never reaches into a server. Only
// cmd/drover may import it.
package command
