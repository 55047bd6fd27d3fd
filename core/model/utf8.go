// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package model

import (
	"unicode/utf8"

	"github.com/drover-project/drover/sdk/errdefs"
)

// CheckUTF8 returns an error of class InvalidArgument, worded to follow the name of a
// document, if the document is not UTF-8. encoding/json would replace the bytes in question,
// so that a job would have another id or other variables than its file says.
func CheckUTF8(document []byte) error {
	if utf8.Valid(document) {
		return nil
	}
	at := 0
	for {
		r, n := utf8.DecodeRune(document[at:])
		if r == utf8.RuneError && n <= 1 {
			return errdefs.InvalidArgumentf("is not UTF-8 from byte %d on; write text as UTF-8", at)
		}
		at += n
	}
}
