// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hcl1_test

import (
	"testing"

	"github.com/hashicorp/hcl/v2"

	"github.com/drover-project/drover/core/hcl1"
)

func TestAProblemWithTheEditedTextIsFoundInTheSource(t *testing.T) {
	src := []byte("ä { \"b\" = 1, c = 2 }\nd = 3\n")
	edits := hcl1.Edits{{From: 5, To: 5, Text: "\n"}, {From: 5, To: 8, Text: "quoted_b"}, {From: 12, To: 13, Text: "\n"}, {From: 19, To: 19, Text: "\n"}}
	text := edits.Apply(src)
	if want := "ä { \nquoted_b = 1\n c = 2\n }\nd = 3\n"; string(text) != want {
		t.Fatalf("%q", text)
	}
	for in, want := range map[int]hcl.Pos{
		0:  {Line: 1, Column: 1, Byte: 0},
		9:  {Line: 1, Column: 5, Byte: 5},   // within what stands for "b"
		20: {Line: 1, Column: 14, Byte: 14}, // c
		29: {Line: 2, Column: 1, Byte: 22},  // d
		99: {Line: 3, Column: 1, Byte: 28},
	} {
		d := hcl.Diagnostics{{Subject: &hcl.Range{Start: hcl.Pos{Byte: in}, End: hcl.Pos{Byte: in}}}}
		edits.Restore(d, src)
		if got := d[0].Subject.Start; got != want || d[0].Context != nil {
			t.Errorf("byte %d: %+v, want %+v", in, got, want)
		}
	}
}
