// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Codec encodes commands and rows as MessagePack, with structs as arrays of their
// fields in source order, so fields of stored types may only be appended
// (TestStoredFieldsAreOnlyAppended). Equal values have equal encodings.
type Codec struct{ handle *codec.MsgpackHandle }

// NewCodec returns the codec of the log and of snapshots.
func NewCodec() Codec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.StructToArray = true
	h.Canonical = true
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"stored"}) // json tags are for the API
	return Codec{handle: h}
}

// Append appends the encoding of v to dst.
func (c Codec) Append(dst []byte, v any) ([]byte, error) {
	var out []byte
	if err := codec.NewEncoderBytes(&out, c.handle).Encode(v); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return append(dst, out...), nil
}

// Decode decodes data into v, a pointer. It returns an error of class InvalidArgument
// for anything that it cannot decode, and never panics.
func (c Codec) Decode(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("decoding %T: %v", v, r)
		}
	}()
	if err := codec.NewDecoderBytes(data, c.handle).Decode(v); err != nil {
		return errdefs.InvalidArgumentf("decoding %T: %w", v, err)
	}
	return nil
}
