// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// IdentityQuery asks for tokens of a task that the node runs.
type IdentityQuery struct {
	AllocID string
	Task    string   // "" for services of the group
	Names   []string // names of identities of the task, or of its services
}

// IdentityAnswer has a token for each name of an IdentityQuery, in that order.
type IdentityAnswer struct {
	Tokens []IdentityToken
}

// IdentityToken is a signed token. A TTL of 0 means that it ends with the allocation.
type IdentityToken struct {
	Name string
	JWT  string
	TTL  time.Duration
}

const (
	methodIdentities = "Identities"
	methodCheckToken = "CheckToken"
)

type identitiesMessage struct {
	ID    Identity
	Query IdentityQuery
}

type checkTokenMessage struct {
	ID    Identity
	Token string
}

func identitiesMethod() grpc.MethodDesc {
	return unary(methodIdentities, func(ctx context.Context, s Servers, m *identitiesMessage) (*IdentityAnswer, error) {
		answer, err := s.Identities(ctx, m.ID, m.Query)
		return &answer, err
	})
}

func checkTokenMethod() grpc.MethodDesc {
	return unary(methodCheckToken, func(ctx context.Context, s Servers, m *checkTokenMessage) (*struct{}, error) {
		return &struct{}{}, s.CheckToken(ctx, m.ID, m.Token)
	})
}

// Identities implements Servers.
func (c *Client) Identities(ctx context.Context, id Identity, q IdentityQuery) (answer IdentityAnswer, err error) {
	err = c.ask(ctx, id, methodIdentities, &identitiesMessage{ID: id, Query: q}, &answer)
	return answer, err
}

// CheckToken implements Servers.
func (c *Client) CheckToken(ctx context.Context, id Identity, token string) error {
	return c.ask(ctx, id, methodCheckToken, &checkTokenMessage{ID: id, Token: token}, &struct{}{})
}
