// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverqemu

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The allowed formats of disk images. They cannot name other files, or the driver
// reads which files they name.
const (
	formatRaw   = "raw"
	formatQcow2 = "qcow2"
	formatVDI   = "vdi"
	formatVHDX  = "vhdx"
)

// header is the information in the header of a disk image.
type header struct {
	Format string
	// Backing is the backing image, and BackingFormat its format if the header states
	// it.
	Backing       string
	BackingFormat string
}

// as checks that the image may be used with a format; "" means the format that the
// header states.
func (h header) as(format string) error {
	if format != "" && format != h.Format {
		return fmt.Errorf("is of the format %s, not %s; correct the format that is given for it", h.Format, format)
	}
	return nil
}

// magics identifies file types by their first bytes, or by bytes at an offset.
var magics = []struct {
	offset int64
	magic  string
	format string // format of the image
	not    string // if the file is not a usable image: what it is
}{
	{0, "QFI\xfb\x00\x00\x00\x01", "", "an image of the old format qcow; " + convert},
	{0, "QFI\xfb", formatQcow2, ""},
	{0, "vhdxfile", formatVHDX, ""},
	{0x40, "\x7f\x10\xda\xbe", formatVDI, ""},
	{0, "KDMV", "", "a VMDK image, which may name other files; " + convert},
	{0, "COWD", "", "a VMDK image, which may name other files; " + convert},
	{0, "# Disk DescriptorFile", "", "the description of a VMDK image; " + convert},
	{0, "conectix", "", "a VHD image, which may name other files; " + convert},
	{0, "QED\x00", "", "a QED image; " + convert},
	{0, "WithoutFreeSpace", "", "a Parallels image; " + convert},
	{0, "WithouFreSpacExt", "", "a Parallels image; " + convert},
	{0, "Bochs Virtual HD Image", "", "a Bochs image; " + convert},
	{0, "LUKS\xba\xbe", "", "encrypted; there is no way to give QEMU its key"},
	{0, "\x1f\x8b", "", "compressed by gzip; " + unpack},
	{0, "\xfd7zXZ\x00", "", "compressed by xz; " + unpack},
	{0, "BZh", "", "compressed by bzip2; " + unpack},
	{0, "\x28\xb5\x2f\xfd", "", "compressed by zstd; " + unpack},
	{0, "PK\x03\x04", "", "a zip archive; " + unpack},
	{257, "ustar", "", "a tar archive; " + unpack},
	{0, "\x7fELF", "", "a program"},
	{0, "#!", "", "a script"},
}

const (
	convert = "convert it with qemu-img convert -O qcow2"
	unpack  = "have its artifact unpacked, or unpack it before"
)

// sector is the sector size of a raw disk in bytes.
const sector = 512

// readHeader determines the format of a disk image. It trusts only what it checks,
// because the guest can write all of a raw disk.
func readHeader(r io.ReaderAt, size int64) (header, error) {
	for _, m := range magics {
		at := make([]byte, len(m.magic))
		if n, err := r.ReadAt(at, m.offset); n < len(at) {
			if err != nil && !errors.Is(err, io.EOF) {
				return header{}, fmt.Errorf("cannot be read: %w", err)
			}
			continue
		}
		switch {
		case string(at) != m.magic:
		case m.not != "":
			return header{}, errors.New("is " + m.not)
		case m.format == formatQcow2:
			return readQcow2(r)
		default:
			return header{Format: m.format}, nil
		}
	}
	if size == 0 {
		return header{}, errors.New("is not a disk image: the file is empty; fetch it again, or look at what makes it")
	}
	if size%sector != 0 {
		return header{}, fmt.Errorf("is not a disk image: it has no known format, and its %d bytes are not a multiple of %d", size, sector)
	}
	return header{Format: formatRaw}, nil
}

// The header of a qcow2 image, as specified in QEMU's docs/interop/qcow2.txt.
const (
	qcow2Version      = 4
	qcow2BackingAt    = 8
	qcow2BackingSize  = 16
	qcow2Crypt        = 32
	qcow2Incompatible = 72
	qcow2HeaderLength = 100
	qcow2Head         = 104
	qcow2HeadV2       = 72

	qcow2ExternalData = 1 << 2

	qcow2ExtensionBackingFormat = 0xe2792aca
	maxBackingName              = 1023
	maxExtensions               = 64
)

func readQcow2(r io.ReaderAt) (header, error) {
	head := make([]byte, qcow2Head)
	if n, _ := r.ReadAt(head, 0); n < qcow2HeadV2 {
		return header{}, errors.New("is a truncated qcow2 image")
	}
	version := binary.BigEndian.Uint32(head[qcow2Version:])
	extensions := int64(qcow2HeadV2)
	switch {
	case version < 2 || version > 3:
		return header{}, fmt.Errorf("is a qcow2 image of version %d; only 2 and 3 are known", version)
	case binary.BigEndian.Uint32(head[qcow2Crypt:]) != 0:
		return header{}, errors.New("is encrypted; there is no way to give QEMU its key")
	case version == 3:
		if binary.BigEndian.Uint64(head[qcow2Incompatible:])&qcow2ExternalData != 0 {
			return header{}, errors.New("keeps its data in another file (data_file); " + convert)
		}
		extensions = int64(binary.BigEndian.Uint32(head[qcow2HeaderLength:]))
	}
	h := header{Format: formatQcow2}
	at, size := binary.BigEndian.Uint64(head[qcow2BackingAt:]), binary.BigEndian.Uint32(head[qcow2BackingSize:])
	if at == 0 {
		return h, nil
	}
	if size == 0 || size > maxBackingName || at > 1<<32 {
		return header{}, errors.New("is a qcow2 image whose header is damaged: the name of its backing file")
	}
	name := make([]byte, size)
	if _, err := r.ReadAt(name, int64(at)); err != nil {
		return header{}, fmt.Errorf("is a qcow2 image whose header is damaged: the name of its backing file: %w", err)
	}
	h.Backing = string(name)
	h.BackingFormat = readBackingFormat(r, extensions)
	return h, nil
}

// readBackingFormat returns the backing format from the header extensions, or "" if
// it is not there.
func readBackingFormat(r io.ReaderAt, at int64) string {
	for range maxExtensions {
		var head [8]byte
		if _, err := r.ReadAt(head[:], at); err != nil {
			return ""
		}
		kind, size := binary.BigEndian.Uint32(head[:]), int64(binary.BigEndian.Uint32(head[4:]))
		if kind == 0 || size > 1<<20 {
			return ""
		}
		if kind == qcow2ExtensionBackingFormat && size < 32 {
			name := make([]byte, size)
			if _, err := r.ReadAt(name, at+int64(len(head))); err != nil {
				return ""
			}
			return string(name)
		}
		at += int64(len(head)) + (size+7)/8*8
	}
	return ""
}

// backingPath returns the path of the backing file that a header names, relative to
// the image's directory. It rejects names that are not file names.
func backingPath(name string) (string, error) {
	before, _, hasScheme := strings.Cut(name, ":")
	if hasScheme && !strings.Contains(before, "/") {
		return "", fmt.Errorf("its backing file %q is not a plain file; "+convert, name)
	}
	return name, nil
}
