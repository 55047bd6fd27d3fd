// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package hcl1 edits text that was written for HCL 1, so that it is HCL 2, and finds the place
// in the text of a problem with what became of it. What has to be edited is decided by
// core/config for files of an agent and by core/jobspec for specifications, which import it.
package hcl1

import (
	"bytes"
	"unicode/utf8"

	"github.com/hashicorp/hcl/v2"
)

// Edit replaces the bytes of a source from From to To.
type Edit struct {
	From, To int
	Text     string
}

// Edits are edits of one source, in order, none of which overlap.
type Edits []Edit

// Apply returns src with the edits.
func (e Edits) Apply(src []byte) []byte {
	var out []byte
	done := 0 // bytes of src
	for _, x := range e {
		out = append(out, src[done:x.From]...)
		out = append(out, x.Text...)
		done = x.To
	}
	return append(out, src[done:]...)
}

// Restore makes the places of problems with the edited text those in src.
func (e Edits) Restore(diags hcl.Diagnostics, src []byte) {
	for _, d := range diags {
		d.Subject, d.Context = e.original(d.Subject, src), e.original(d.Context, src)
	}
}

func (e Edits) original(r *hcl.Range, src []byte) *hcl.Range {
	if r == nil {
		return nil
	}
	return &hcl.Range{Filename: r.Filename, Start: e.originalPos(r.Start.Byte, src), End: e.originalPos(r.End.Byte, src)}
}

// originalPos returns the position in src of a byte of the edited text.
func (e Edits) originalPos(at int, src []byte) hcl.Pos {
	grown := 0
	for _, x := range e {
		switch begin := x.From + grown; {
		case at < begin:
			return position(at-grown, src)
		case at < begin+len(x.Text):
			return position(x.From, src)
		}
		grown += len(x.Text) - (x.To - x.From)
	}
	return position(at-grown, src)
}

func position(at int, src []byte) hcl.Pos {
	at = min(max(at, 0), len(src))
	line := bytes.LastIndexByte(src[:at], '\n') + 1
	return hcl.Pos{Line: bytes.Count(src[:at], []byte("\n")) + 1, Column: utf8.RuneCount(src[line:at]) + 1, Byte: at}
}
