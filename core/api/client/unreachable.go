// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"

	"github.com/drover-project/drover/sdk/errdefs"
)

// unreachable returns the error for a request that got no answer, with what to do about it.
func (c *Client) unreachable(err error) error {
	var theirs *tls.CertificateVerificationError
	var op *net.OpError
	switch {
	case errors.As(err, &theirs):
		return errdefs.Unavailablef("the certificate of the agent at %s is not trusted; name the authority that signed it (-ca-cert, DROVER_CACERT), or the name that it is for (-tls-server-name): %w", c.cfg.Address, err)
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS, whose type crypto/tls does not export
		return errdefs.Unavailablef("the agent at %s does not accept this client; if it wants a certificate of its authority, give one (-client-cert and -client-key, DROVER_CLIENT_CERT and DROVER_CLIENT_KEY): %w", c.cfg.Address, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return errdefs.Unavailablef("the agent at %s speaks HTTP without TLS; give its address with http:// (-address, DROVER_ADDR): %w", c.cfg.Address, err)
	}
	return errdefs.Unavailablef("the agent at %s does not answer; is it running, and is the address (-address, DROVER_ADDR) right? %w", c.cfg.Address, err)
}

// wantsTLS reports whether an answer is the one that a Go program gives to a request without
// TLS on a port with TLS: it has no headers.
func (c *Client) wantsTLS(resp *http.Response) bool {
	return strings.HasPrefix(c.base, "http://") && resp.StatusCode == http.StatusBadRequest && !resp.ProtoAtLeast(1, 1) && len(resp.Header) == 0
}

// errWantsTLS is the error for such an answer.
func (c *Client) errWantsTLS() error {
	return errdefs.Unavailablef("the agent at %s speaks HTTPS; give its address with https:// (-address, DROVER_ADDR), and its authority with -ca-cert (DROVER_CACERT)", c.cfg.Address)
}
