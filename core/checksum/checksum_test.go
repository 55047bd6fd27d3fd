// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package checksum_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/core/checksum"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestOnlyAChecksumThatCanBeComparedIsTaken(t *testing.T) {
	md5 := strings.Repeat("0a", 16)
	for _, good := range []string{md5, "md5:" + md5, "MD5:" + md5, "sha256:" + md5 + md5, "file:https://x/SHA256SUMS"} {
		if err := checksum.Check(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "md5:", "md5:" + md5 + "0a", "sha256:" + md5, "crc32:" + md5, "md5:" + md5[1:], "md5:zz" + md5[2:], "file:/etc/passwd", "file:"} {
		if err := checksum.Check(bad); !errdefs.IsInvalidArgument(err) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
