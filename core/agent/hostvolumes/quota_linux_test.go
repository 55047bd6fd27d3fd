// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package hostvolumes_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-project/drover/core/agent/quota"
	"github.com/drover-project/drover/internal/testkit"
)

// The size of a volume is limited where the file system can; elsewhere it has no limit, and
// its capacity is not claimed.
func TestMkdirLimitsAVolumeToItsCapacity(t *testing.T) {
	for what, options := range map[string]string{"with quotas": "prjquota", "without quotas": "noatime"} {
		t.Run(what, func(t *testing.T) {
			m := newMachine(t)
			m.dir = testkit.FileSystem(t, "ext4", options, 64<<20)
			if err := os.Mkdir(m.plugins(), 0o755); err != nil {
				t.Fatal(err)
			}
			k := m.open()
			v := volume(one, "data", "mkdir")
			v.RequestedCapacityMaxBytes = 8 << 20
			made, err := k.Create(t.Context(), v)
			if err != nil {
				t.Fatal(err)
			}
			want := v.RequestedCapacityMaxBytes
			if options != "prjquota" {
				want = 0
			}
			if u, _ := quota.Measure(filepath.Join(m.volumes(), one)); made.CapacityBytes != want || u.Limit != want {
				t.Errorf("it has %d bytes and the limit %d, want %d", made.CapacityBytes, u.Limit, want)
			}
			v.RequestedCapacityMaxBytes = 16 << 20 // it is made again
			if made, err = k.Create(t.Context(), v); err != nil || made.CapacityBytes != 2*want {
				t.Errorf("after it was enlarged it has %d bytes, %v", made.CapacityBytes, err)
			}
			if err := k.Delete(t.Context(), one); err != nil {
				t.Fatal(err)
			}
		})
	}
}
