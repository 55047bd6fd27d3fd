// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// Variable is a variable of the cluster.
type Variable struct {
	Namespace   string `json:",omitempty"`
	Path        string
	Items       map[string]string `json:",omitempty"`
	Lock        *VariableLock     `json:",omitempty"`
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64 // Unix ns
	ModifyTime  int64 // Unix ns
}

// VariableLock is the holder of a variable's lock. ID is a secret of the holder.
type VariableLock struct {
	ID        string `json:",omitempty"`
	TTL       string `json:",omitempty"`
	LockDelay string `json:",omitempty"`
}

// varPath escapes the path of a variable, except for its slashes.
func varPath(path string) string {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return "/v1/var/" + strings.Join(parts, "/")
}

// Variables lists variables without their items.
func (c *Client) Variables(ctx context.Context, q *Query) ([]*Variable, Meta, error) {
	return get[[]*Variable](ctx, c, "/v1/vars", q)
}

// Variable reads a variable.
func (c *Client) Variable(ctx context.Context, path string) (*Variable, error) {
	out, _, err := get[*Variable](ctx, c, varPath(path), nil)
	return out, err
}

func casParam(cas *uint64) *Query {
	if cas == nil {
		return nil
	}
	return withParam(nil, "cas", strconv.FormatUint(*cas, 10))
}

// PutVariable writes a variable. If cas is set, it must have that modify index.
func (c *Client) PutVariable(ctx context.Context, v *Variable, cas *uint64) (*Variable, error) {
	return put[Variable](ctx, c, varPath(v.Path), casParam(cas), v)
}

// DeleteVariable deletes a variable. If cas is set, it must have that modify index.
func (c *Client) DeleteVariable(ctx context.Context, path string, cas *uint64) error {
	_, err := c.call(ctx, http.MethodDelete, varPath(path), c.params(casParam(cas)), nil, nil)
	return err
}

// LockVariable applies an operation to the lock of a variable: acquire, renew or
// release.
func (c *Client) LockVariable(ctx context.Context, operation string, v *Variable) (*Variable, error) {
	return put[Variable](ctx, c, varPath(v.Path), withParam(nil, "lock-"+operation, ""), v)
}
