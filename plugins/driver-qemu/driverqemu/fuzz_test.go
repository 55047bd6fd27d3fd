// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/plugins/driver-qemu/driverqemu"
)

// qcow2 returns the header of an image with a backing file.
func qcow2(version uint32, backing string) []byte {
	head := make([]byte, 512)
	copy(head, "QFI\xfb")
	binary.BigEndian.PutUint32(head[4:], version)
	binary.BigEndian.PutUint64(head[8:], 256)
	binary.BigEndian.PutUint32(head[16:], uint32(len(backing)))
	binary.BigEndian.PutUint32(head[100:], 104)
	copy(head[256:], backing)
	return head
}

// A header may come from an untrusted source, even from the VM's own guest.
func FuzzImageHeader(f *testing.F) {
	f.Add(qcow2(2, "base.img"))
	f.Add(qcow2(3, "/etc/shadow"))
	f.Add(make([]byte, 1024))
	f.Add([]byte("vhdxfile"))
	f.Fuzz(func(t *testing.T, body []byte) {
		format, backing, err := driverqemu.ReadHeader(bytes.NewReader(body), int64(len(body)))
		switch {
		case err != nil && format != "":
			t.Errorf("both a format, %q, and an error: %v", format, err)
		case err == nil && !slices.Contains([]string{"raw", "qcow2", "vdi", "vhdx"}, format):
			t.Errorf("format %q", format)
		case backing != "" && format != "qcow2":
			t.Errorf("a %s image with the backing file %q", format, backing)
		case format == "raw" && bytes.HasPrefix(body, []byte("QFI\xfb")):
			t.Error("QEMU would take it for qcow2")
		}
	})
}

// The driver and QEMU must parse a value in the same way.
func FuzzOptionValue(f *testing.F) {
	f.Add("file=a,,b,if=virtio")
	f.Add("e1000,,romfile=/x,romfile=/y")
	f.Add(",=,,=,")
	f.Fuzz(func(t *testing.T, value string) {
		names, again := driverqemu.Split(value)
		if same, twice := driverqemu.Split(again); !slices.Equal(same, names) && !slices.Contains(names, "") || twice != again && !slices.Contains(names, "") {
			t.Errorf("%q has %q, and put together again, %q, %q", value, names, again, same)
		}
		if err := driverqemu.CheckArgs([]string{"-device", value}); err == nil && strings.Contains(strings.ReplaceAll(value, ",,", ""), ",romfile=/") {
			t.Errorf("-device %q is allowed", value)
		}
	})
}
