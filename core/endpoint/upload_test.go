// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// net/http ends the body of a request that broke off with io.ErrUnexpectedEOF.
func TestABodyThatBreaksOffIsNotClosed(t *testing.T) {
	for name, c := range map[string]struct {
		body     io.Reader
		complete bool
	}{
		"whole":               {strings.NewReader("file"), true},
		"one byte at a time":  {iotest.OneByteReader(strings.NewReader("file")), true},
		"ends with its bytes": {iotest.DataErrReader(strings.NewReader("file")), true},
		"breaks off":          {io.MultiReader(strings.NewReader("file"), iotest.ErrReader(io.ErrUnexpectedEOF)), false},
	} {
		t.Run(name, func(t *testing.T) {
			out := make(chan []byte, 10)
			err := chunks(t.Context(), c.body, out)
			if got := string(<-out); got != "file" {
				t.Errorf("the first piece is %q", got)
			}
			select {
			case _, more := <-out:
				if more || !c.complete {
					t.Errorf("after it there is more: %v", more)
				}
			default:
				if c.complete {
					t.Error("the end was not told")
				}
			}
			if (err == nil) != c.complete || !c.complete && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%v", err)
			}
		})
	}
}
