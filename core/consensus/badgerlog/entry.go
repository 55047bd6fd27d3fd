// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import (
	"encoding/binary"
	"time"

	"github.com/hashicorp/raft"

	"github.com/drover-project/drover/sdk/errdefs"
)

// entryFormat is the first byte of every stored entry; it distinguishes later formats.
const entryFormat = 1

// encodeEntry encodes the entry without its index, which is the key.
func encodeEntry(log *raft.Log) []byte {
	b := make([]byte, 0, 32+len(log.Extensions)+len(log.Data))
	b = append(b, entryFormat, byte(log.Type))
	b = binary.AppendUvarint(b, log.Term)
	var appended int64
	if !log.AppendedAt.IsZero() {
		appended = log.AppendedAt.UnixNano()
	}
	b = binary.AppendVarint(b, appended)
	b = binary.AppendUvarint(b, uint64(len(log.Extensions)))
	b = append(b, log.Extensions...)
	return append(b, log.Data...)
}

// decodeEntry decodes b into log, which keeps slices of b.
func decodeEntry(index uint64, b []byte, log *raft.Log) error {
	if len(b) < 2 || b[0] != entryFormat {
		return damaged(index)
	}
	out := raft.Log{Index: index, Type: raft.LogType(b[1])}
	b = b[2:]
	term, n := binary.Uvarint(b)
	if n <= 0 {
		return damaged(index)
	}
	out.Term, b = term, b[n:]
	appended, n := binary.Varint(b)
	if n <= 0 {
		return damaged(index)
	}
	if appended != 0 {
		out.AppendedAt = time.Unix(0, appended)
	}
	b = b[n:]
	size, n := binary.Uvarint(b)
	if n <= 0 || size > uint64(len(b)-n) {
		return damaged(index)
	}
	b = b[n:]
	if size > 0 {
		out.Extensions = b[:size:size]
	}
	if rest := b[size:]; len(rest) > 0 {
		out.Data = rest
	}
	*log = out
	return nil
}

func damaged(index uint64) error {
	return errdefs.Internalf("raft log entry %d cannot be read: it is damaged or was written by a newer version; restore this server from a snapshot or let it join anew with an empty data directory", index)
}
