// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package oneline_test

import (
	"testing"

	"github.com/drover-project/drover/sdk/internal/oneline"
)

func TestATextIsOneLineOfALimitedSize(t *testing.T) {
	for in, want := range map[string]string{
		"":                      "",
		"plain":                 "plain",
		"a\nb\r\tc":             "a b  c",
		"\x1b[31mred\x00":       " [31mred ",
		"\u202eright\u200b":     " right ",
		"\xff\xfe":              " ",
		"0123456789abcdef+more": "0123456789abcdef",
		"0123456789abcdeüx":     "0123456789abcde",
		"\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf\xbf": "",
	} {
		if got := oneline.Text(in, 16); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
