// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package msgpack encodes and decodes MessagePack with encoders and decoders that are used
// again: making them takes longer than a short message, and what their buffers leave behind as
// they grow was a quarter of a busy server's garbage. core/fsm imports it for the log and
// core/rpc for messages between machines; each has the settings of its own format.
package msgpack

import (
	"fmt"
	"sync"

	"github.com/hashicorp/go-msgpack/v2/codec"
)

// Codec encodes and decodes values. Its methods may be called concurrently.
type Codec struct {
	handle   *codec.MsgpackHandle
	encoders sync.Pool // of *encoder
	decoders sync.Pool // of *codec.Decoder
}

// encoder is an encoder with its buffer.
type encoder struct {
	to  *codec.Encoder
	out []byte
}

// maxKept is the size up to which a buffer is used again.
const maxKept = 64 << 10

// New returns a codec with the settings of a handle, which must not change any more.
func New(handle *codec.MsgpackHandle) *Codec { return &Codec{handle: handle} }

// Append appends the encoding of v to dst. After an error it returns nil.
func (c *Codec) Append(dst []byte, v any) ([]byte, error) {
	e, _ := c.encoders.Get().(*encoder)
	if e == nil {
		e = &encoder{}
		e.to = codec.NewEncoderBytes(&e.out, c.handle)
	}
	e.out = e.out[:0]
	e.to.ResetBytes(&e.out)
	if err := e.to.Encode(v); err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err) // the encoder may be in the middle of a value: it is not used again
	}
	out := append(dst, e.out...)
	if cap(e.out) <= maxKept {
		c.encoders.Put(e)
	}
	return out, nil
}

// Decode decodes data into v, a pointer. v does not refer to data afterwards. It returns an
// error for anything that it cannot decode, and never panics.
func (c *Codec) Decode(data []byte, v any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("decode %T: %v", v, r)
		}
	}()
	d, _ := c.decoders.Get().(*codec.Decoder)
	if d == nil {
		d = codec.NewDecoderBytes(nil, c.handle)
	}
	d.ResetBytes(data)
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode %T: %w", v, err)
	}
	d.ResetBytes(nil)
	c.decoders.Put(d)
	return nil
}
