// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package fsm

import (
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/msgpack"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Codec encodes commands and rows as MessagePack, with structs as arrays of their
// fields in source order, so fields of stored types may only be appended
// (TestStoredFieldsAreOnlyAppended). Equal values have equal encodings.
type Codec struct{ general *msgpack.Codec }

// NewCodec returns the codec of the log and of snapshots.
func NewCodec() Codec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.StructToArray = true
	h.Canonical = true
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"stored"}) // json tags are for the API
	return Codec{msgpack.New(h)}
}

// Append appends the encoding of v to dst.
func (c Codec) Append(dst []byte, v any) ([]byte, error) { return c.general.Append(dst, v) }

// Decode decodes data into v, a pointer. It returns an error of class InvalidArgument
// for anything that it cannot decode, and never panics.
func (c Codec) Decode(data []byte, v any) error {
	if err := c.general.Decode(data, v); err != nil {
		return errdefs.InvalidArgumentf("%w", err)
	}
	return nil
}
