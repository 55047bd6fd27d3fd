// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package badgerlog

import "encoding/binary"

// Every key starts with a letter for its kind. A log key is
//
//	'l' | epoch (4) | segment (6) | offset in the segment (2)
//
// in big endian, so that keys sort by index, and all entries of a segment of 4,096
// share a prefix: the unit in which the front of the log is dropped. Further pieces of
// a large entry have the kind 'p', the same middle, and the number of the piece at the
// end.
const (
	kindLog    = 'l'
	kindPiece  = 'p'
	kindStable = 's'

	segmentBits    = 12
	segmentEntries = 1 << segmentBits

	epochLen   = 1 + 4
	segmentLen = epochLen + 6
	logKeyLen  = segmentLen + 2
)

// metaKey is the key of the meta record.
var metaKey = []byte("m")

func appendEpoch(b []byte, kind byte, epoch uint32) []byte {
	b = append(b, kind)
	return binary.BigEndian.AppendUint32(b, epoch)
}

// epochPrefix returns the prefix of all keys of an epoch.
func epochPrefix(kind byte, epoch uint32) []byte {
	return appendEpoch(make([]byte, 0, epochLen), kind, epoch)
}

// segmentPrefix returns the prefix of all keys of a segment.
func segmentPrefix(kind byte, epoch uint32, segment uint64) []byte {
	b := appendEpoch(make([]byte, 0, segmentLen), kind, epoch)
	var s [8]byte
	binary.BigEndian.PutUint64(s[:], segment)
	return append(b, s[2:]...)
}

func logKey(epoch uint32, index uint64) []byte {
	b := segmentPrefix(kindLog, epoch, index>>segmentBits)
	return binary.BigEndian.AppendUint16(b, uint16(index&(segmentEntries-1)))
}

func pieceKey(epoch uint32, index uint64, piece uint32) []byte {
	b := segmentPrefix(kindPiece, epoch, index>>segmentBits)
	b = binary.BigEndian.AppendUint16(b, uint16(index&(segmentEntries-1)))
	return binary.BigEndian.AppendUint32(b, piece)
}

// epochOf returns the epoch in a log or piece key.
func epochOf(key []byte) uint32 { return binary.BigEndian.Uint32(key[1:]) }

// segmentOf returns the segment in a log or piece key.
func segmentOf(key []byte) uint64 {
	var s [8]byte
	copy(s[2:], key[epochLen:segmentLen])
	return binary.BigEndian.Uint64(s[:])
}

// indexOf returns the index in a log key.
func indexOf(key []byte) uint64 {
	return segmentOf(key)<<segmentBits | uint64(binary.BigEndian.Uint16(key[segmentLen:]))
}

func stableKey(key []byte) []byte {
	return append([]byte{kindStable}, key...)
}
