// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	// mostKept is the size of a body that is kept so that it can be sent again, and
	// mostKeptOfAll the limit for all bodies together.
	mostKept      = 1 << 20
	mostKeptOfAll = 64 << 20
)

// kept is the body of a request with the part that was read. A body that is too large to
// keep can be read only once, so its request has one attempt.
type kept struct {
	peers *Peers
	src   io.ReadCloser // nil without a body

	reading sync.Mutex // held while src is read, which may take long
	mu      sync.Mutex
	data    []byte
	gone    bool  // some of it was read and not kept
	err     error // error of src
	current *reading
}

// reading is what one attempt reads.
type reading struct {
	of *kept
	at int
}

func (p *Peers) keep(r *http.Request) *kept {
	k := &kept{peers: p}
	if r.Body != nil && r.Body != http.NoBody {
		k.src = r.Body
	}
	return k
}

func (k *kept) release() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.drop()
	k.current, k.gone = nil, true
}

// drop forgets what was kept.
func (k *kept) drop() {
	k.peers.kept.Add(-int64(len(k.data)))
	k.data = nil
}

// request returns the request with its body from the beginning. Only the newest one can
// read: net/http may still read for an attempt that has failed.
func (k *kept) request(r *http.Request) (*http.Request, error) {
	if k.src == nil {
		return r, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.gone {
		return nil, errdefs.Unavailablef("No cluster leader: the leader was lost while the request was sent, whose body is too large to be sent again by this server; nothing was done, retry")
	}
	k.current = &reading{of: k}
	r = r.WithContext(r.Context())
	r.Body = k.current
	return r, nil
}

// failed returns why the client's body could not be read, if it could not.
func (k *kept) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.err == nil || errors.Is(k.err, io.EOF) {
		return nil
	}
	return errdefs.InvalidArgumentf("read the body of the request: %w", k.err)
}

// Read returns the kept part and then the rest of the body.
func (x *reading) Read(b []byte) (int, error) {
	k := x.of
	if n, err, ready := k.ready(x, b); ready {
		return n, err
	}
	k.reading.Lock()
	defer k.reading.Unlock()
	if n, err, ready := k.ready(x, b); ready { // an attempt that has failed was still reading
		return n, err
	}
	n, err := k.src.Read(b)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.store(b[:n])
	k.err = err
	if k.current != x {
		return 0, http.ErrBodyReadAfterClose
	}
	x.at = len(k.data)
	return n, err
}

// ready returns data that is kept already, without waiting for the client.
func (k *kept) ready(x *reading, b []byte) (n int, err error, ready bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.current != x:
		return 0, http.ErrBodyReadAfterClose, true
	case x.at < len(k.data):
		n = copy(b, k.data[x.at:])
		x.at += n
		return n, nil, true
	}
	return 0, k.err, k.err != nil
}

// store keeps data that was read, if there is room.
func (k *kept) store(b []byte) {
	if k.gone || len(b) == 0 {
		return
	}
	if len(k.data)+len(b) > mostKept || k.peers.kept.Add(int64(len(b))) > mostKeptOfAll {
		if len(k.data)+len(b) <= mostKept {
			k.peers.kept.Add(-int64(len(b)))
		}
		k.gone = true
		k.drop()
		return
	}
	k.data = append(k.data, b...)
}

// Close does nothing: the HTTP server closes the client's body.
func (x *reading) Close() error { return nil }
