// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Codec is how commands and rows become bytes: MessagePack with structs as
// arrays of their fields in the order of the source, so fields of stored types
// are only ever appended (TestStoredFieldsAreOnlyAppended). Equal values give
// equal bytes.
type Codec struct{ handle *codec.MsgpackHandle }

// NewCodec returns the codec of the log and of snapshots.
func NewCodec() Codec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.StructToArray = true
	h.Canonical = true
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"stored"}) // json tags are the API's matter
	return Codec{handle: h}
}

// Append encodes v behind dst.
func (c Codec) Append(dst []byte, v any) ([]byte, error) {
	var out []byte
	if err := codec.NewEncoderBytes(&out, c.handle).Encode(v); err != nil {
		return nil, fmt.Errorf("encoding %T: %w", v, err)
	}
	return append(dst, out...), nil
}

// Decode reads what Append wrote into v, a pointer. Bytes that it cannot read
// are an error of class InvalidArgument, whatever they are.
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
