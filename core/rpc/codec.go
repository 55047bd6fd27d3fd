// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/sdk/errdefs"
)

// wireCodec is how messages become bytes: MessagePack, fields by name, so that
// servers and nodes of neighbouring versions understand each other.
type wireCodec struct{ handle *codec.MsgpackHandle }

func newWireCodec() wireCodec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"wire"}) // json tags hide fields that a node needs
	return wireCodec{handle: h}
}

func (wireCodec) Name() string { return "drover-msgpack" }

func (c wireCodec) Marshal(v any) ([]byte, error) {
	var out []byte
	if err := codec.NewEncoderBytes(&out, c.handle).Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	return out, nil
}

// Unmarshal refuses what it cannot read with an error, whatever it is: the bytes
// come from another machine.
func (c wireCodec) Unmarshal(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errdefs.InvalidArgumentf("decode %T: %v", v, r)
		}
	}()
	if err := codec.NewDecoderBytes(data, c.handle).Decode(v); err != nil {
		return errdefs.InvalidArgumentf("decode %T: %w", v, err)
	}
	return nil
}
