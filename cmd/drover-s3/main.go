// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Command drover-s3 does one thing with one bucket of an S3-compatible store: it reads a
// request of core/backup/wire from standard input and writes the answer to standard
// output. Package bucket does the work. It is a separate binary so that the agent links no
// client of a cloud.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	"github.com/drover-project/drover/cmd/drover-s3/bucket"
	"github.com/drover-project/drover/core/backup/wire"
)

func main() {
	var r wire.Request
	if err := json.NewDecoder(os.Stdin).Decode(&r); err != nil {
		fmt.Fprintln(os.Stderr, "this program is run by drover, which writes a request to its standard input:", err)
		os.Exit(2)
	}
	if err := json.NewEncoder(os.Stdout).Encode(bucket.Do(context.Background(), r)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
