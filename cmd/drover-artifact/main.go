// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover-artifact fetches one artifact in a sandbox. A Drover agent
// starts it, one process per artifact, and speaks core/agent/artifact/wire with
// it. It owns nothing but that: package fetch does the work. It is a binary of
// its own so that the daemon links no getter and no client of a cloud.
package main

import (
	"os"

	"github.com/drover-project/drover/cmd/drover-artifact/fetch"
)

func main() { os.Exit(fetch.Main(os.Stdin, os.Stdout)) }
