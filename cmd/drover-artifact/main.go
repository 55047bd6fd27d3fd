// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover-artifact fetches one artifact in a sandbox. A Drover agent starts
// one process per artifact and talks to it in the protocol of
// core/agent/artifact/wire. Package fetch does the work. It is a separate binary so
// that the agent links no getters and no cloud clients.
package main

import (
	"os"

	"github.com/drover-project/drover/cmd/drover-artifact/fetch"
)

func main() { os.Exit(fetch.Main(os.Stdin, os.Stdout)) }
