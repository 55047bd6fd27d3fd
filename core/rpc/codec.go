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
type wireCodec struct {
	handle *codec.MsgpackHandle
	limits *limits // of messages that are not bounded themselves; nil: none
}

// bounded is what a message is to be decoded into, within limits of its own. err
// says why it could not be: gRPC would make an internal error of what the codec
// returns.
type bounded struct {
	into   any
	limits limits
	err    error
}

func newWireCodec() wireCodec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.RawToString = true
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"wire"}) // json tags hide fields that a node needs
	return wireCodec{handle: h}
}

// serverCodec is the codec of who reads what strangers send.
func serverCodec() wireCodec {
	c := newWireCodec()
	c.limits = &knownLimits
	return c
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
func (c wireCodec) Unmarshal(data []byte, v any) error {
	if b, ok := v.(*bounded); ok {
		b.err = c.decode(data, b.into, &b.limits)
		return nil
	}
	return c.decode(data, v, c.limits)
}

func (c wireCodec) decode(data []byte, v any, limits *limits) (err error) {
	if limits != nil {
		if err := limits.check(data); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		}
	}
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
