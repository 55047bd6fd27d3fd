// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// VariableQuery requests variables on behalf of a job that runs on the node.
type VariableQuery struct {
	JobNamespace string
	JobID        string

	Namespace string // namespace of the variables
	Path      string // path of one variable, or the prefix of a list
	List      bool
	// Since is the Index of the node's last answer. If it is set, the servers answer
	// when the result differs, or after Wait.
	Since uint64
	Wait  time.Duration
}

// VariableAnswer is the result of a VariableQuery. Index identifies the version of the
// result; it is at least 1.
type VariableAnswer struct {
	Index     uint64
	Variables []Variable
}

// Variable is one variable. In a list it has no Items. Times are Unix nanoseconds.
type Variable struct {
	Namespace   string
	Path        string
	Items       map[string]string
	CreateIndex uint64
	ModifyIndex uint64
	CreateTime  int64
	ModifyTime  int64
}

const methodVariables = "Variables"

type variablesMessage struct {
	ID    Identity
	Query VariableQuery
}

func variablesMethod() grpc.MethodDesc {
	return unary(methodVariables, func(ctx context.Context, s Servers, m *variablesMessage) (*VariableAnswer, error) {
		answer, err := s.Variables(ctx, m.ID, m.Query)
		return &answer, err
	})
}

// Variables implements Servers.
func (c *Client) Variables(ctx context.Context, id Identity, q VariableQuery) (answer VariableAnswer, err error) {
	err = c.ask(ctx, id, methodVariables, &variablesMessage{ID: id, Query: q}, &answer)
	return answer, err
}
