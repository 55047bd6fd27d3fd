// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"fmt"
	"reflect"

	"github.com/hashicorp/go-msgpack/v2/codec"

	"github.com/drover-project/drover/core/msgpack"
	"github.com/drover-project/drover/sdk/errdefs"
)

// wireCodec encodes messages as MessagePack with field names, so that servers and
// nodes of adjacent versions understand each other.
type wireCodec struct {
	general *msgpack.Codec // of all messages that have no encoding of their own
	limits  *limits        // for messages without limits of their own; nil means no limits
	jobs    *encodedJobs   // nil on a client, which sends none
}

// bounded is a target for decoding with limits of its own. err receives the error,
// because gRPC would turn an error returned by the codec into an internal one.
type bounded struct {
	into   any
	limits limits
	err    error
}

func newWireCodec() wireCodec {
	h := &codec.MsgpackHandle{WriteExt: true}
	h.RawToString = true
	h.Raw = true // of jobMessage
	h.MapType = reflect.TypeFor[map[string]any]()
	h.SliceType = reflect.TypeFor[[]any]()
	h.TypeInfos = codec.NewTypeInfos([]string{"wire"}) // json tags hide fields that a node needs
	return wireCodec{general: msgpack.New(h)}
}

// serverCodec returns the codec for messages from untrusted peers. It keeps the encoding of
// jobs in jobs.
func serverCodec(jobs *encodedJobs) wireCodec {
	c := newWireCodec()
	c.limits, c.jobs = &knownLimits, jobs
	return c
}

func (wireCodec) Name() string { return "drover-msgpack" }

func (c wireCodec) Marshal(v any) ([]byte, error) {
	switch m := v.(type) {
	case *beatMessage:
		return m.encode(), nil
	case *toNode:
		if out, ok := m.encodeBeat(); ok {
			return out, nil
		}
	case *allocsMessage:
		if c.jobs != nil {
			c.jobs.fill(m)
		}
	}
	return c.general.Append(nil, v)
}

// Unmarshal returns an error for anything that it cannot decode, and never panics: the
// bytes come from another machine.
func (c wireCodec) Unmarshal(data []byte, v any) error {
	if b, ok := v.(*bounded); ok {
		b.err = c.decode(data, b.into, &b.limits)
		return nil
	}
	if m, ok := v.(*beatMessage); ok {
		if m.decode(data) {
			return nil
		}
		*m = beatMessage{} // fields that the message lacks must not keep old values
	}
	return c.decode(data, v, c.limits)
}

func (c wireCodec) decode(data []byte, v any, limits *limits) (err error) {
	if limits != nil {
		if err := limits.check(data); err != nil {
			return fmt.Errorf("decode %T: %w", v, err)
		}
	}
	if err := c.general.Decode(data, v); err != nil {
		return errdefs.InvalidArgumentf("%w", err)
	}
	return nil
}
