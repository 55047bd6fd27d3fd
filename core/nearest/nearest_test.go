// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package nearest_test

import (
	"flag"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/nearest"
)

func TestTheNameThatWasProbablyMeant(t *testing.T) {
	known := strings.Fields("job var fmt run status stop start retry_join retry_interval node_gc_threshold")
	for name, want := range map[string]string{
		"jbo": "job", "rnu": "run", "statsu": "status", "strat": "start", "stpo": "stop", "retry_joins": "retry_join", "node_gc_treshold": "node_gc_threshold",
		"x": "", "logs": "", "completely_other": "", strings.Repeat("job", 99): "", "": "",
	} {
		if got := nearest.Of(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

func TestTheFlagThatWasProbablyMeant(t *testing.T) {
	fs := flag.NewFlagSet("x", flag.ContinueOnError)
	fs.Bool("detach", false, "")
	fs.Bool("verbose", false, "")
	for line, want := range map[string]string{
		"-detch job": "-detach", "--vebose=true": "-verbose", "-verbose a --detahc": "-detach", "-nothing": "", "- --": "", "-- -detch": "", "a b": "",
	} {
		if got := nearest.Flag(fs, strings.Fields(line)); got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}
