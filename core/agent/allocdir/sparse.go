// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"bytes"
	"os"
)

// page is the smallest hole that a file gets.
const page = 4096

var zeros [page]byte

// sparse writes a file from its beginning and leaves holes where there are only zeros: files of
// databases and of virtual machines are often much larger than their disk.
type sparse struct {
	file *os.File
	at   int64
	grow func(n int) error // allows n more bytes on the disk
}

func (s *sparse) Write(b []byte) (done int, err error) {
	for done < len(b) {
		n, empty := s.run(b[done:])
		if !empty {
			if err = s.grow(n); err == nil {
				_, err = s.file.WriteAt(b[done:done+n], s.at)
			}
			if err != nil {
				return done, err
			}
		}
		s.at += int64(n)
		done += n
	}
	return done, nil
}

// run returns the length of the hole, or of the data, with which b begins.
func (s *sparse) run(b []byte) (n int, empty bool) {
	for n < len(b) {
		next := min(len(b)-n, page-int((s.at+int64(n))%page))
		zero := bytes.Equal(b[n:n+next], zeros[:next])
		if n > 0 && zero != empty {
			break
		}
		n, empty = n+next, zero
	}
	return n, empty
}
