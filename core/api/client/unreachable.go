// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// unreachable returns the error for a request that got no answer, with what to do about it.
func (c *Client) unreachable(err error) error {
	var theirs *tls.CertificateVerificationError
	var invalid x509.CertificateInvalidError
	var op *net.OpError
	switch {
	case errors.As(err, &theirs) && errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return errdefs.Unavailablef("the certificate of the agent at %s, or its authority, has expired or is not valid yet; correct this machine's clock, or, if it is right, make a new one with drover tls cert create: %w", c.cfg.Address, err)
	case errors.As(err, &theirs):
		return errdefs.Unavailablef("the certificate of the agent at %s is not trusted; name the authority that signed it (-ca-cert, DROVER_CACERT), or the name that it is for (-tls-server-name): %w", c.cfg.Address, err)
	case errors.As(err, &op) && op.Op == "remote error": // an alert of TLS, whose type crypto/tls does not export
		if when := c.outOfTime(time.Now()); when != "" {
			return errdefs.Unavailablef("the agent at %s does not accept this client, whose certificate %s is %s; correct this machine's clock, or, if it is right, make a new one with drover tls cert create -cli: %w",
				c.cfg.Address, c.cfg.ClientCert, when, err)
		}
		return errdefs.Unavailablef("the agent at %s does not accept this client; if it wants a certificate of its authority, give one (-client-cert and -client-key, DROVER_CLIENT_CERT and DROVER_CLIENT_KEY): %w", c.cfg.Address, err)
	case errors.Is(err, http.ErrSchemeMismatch):
		return errdefs.Unavailablef("the agent at %s speaks HTTP without TLS; give its address with http:// (-address, DROVER_ADDR): %w", c.cfg.Address, err)
	}
	return errdefs.Unavailablef("the agent at %s does not answer; is it running, and is the address (-address, DROVER_ADDR) right? %w", c.cfg.Address, err)
}

// outOfTime says when the client's certificate is valid if it is not valid now, else "".
func (c *Client) outOfTime(now time.Time) string {
	pair, err := tls.LoadX509KeyPair(c.cfg.ClientCert, c.cfg.ClientKey)
	switch {
	case err != nil: // none, or it was replaced meanwhile
		return ""
	case now.Before(pair.Leaf.NotBefore):
		return "valid only from " + pair.Leaf.NotBefore.UTC().Format(time.RFC3339) + " on"
	case now.After(pair.Leaf.NotAfter):
		return "valid only until " + pair.Leaf.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
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
