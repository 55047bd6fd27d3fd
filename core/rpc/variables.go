// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"
)

// VariableQuery asks for variables on behalf of a job that runs on the node.
type VariableQuery struct {
	JobNamespace string
	JobID        string

	Namespace string // of the variables
	Path      string // of one variable, or what the paths of a list begin with
	List      bool
	// Since is the index of the answer that the node has; with it, the servers
	// answer when there is another one, or after Wait.
	Since uint64
	Wait  time.Duration
}

// VariableAnswer is what there is. Index tells answers apart; it is at least 1.
type VariableAnswer struct {
	Index     uint64
	Variables []Variable
}

// Variable is one variable. A list has no Items. Times are Unix nanoseconds.
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

// Variables reads variables: see Servers.
func (c *Client) Variables(ctx context.Context, id Identity, q VariableQuery) (answer VariableAnswer, err error) {
	err = c.ask(ctx, id, methodVariables, &variablesMessage{ID: id, Query: q}, &answer)
	return answer, err
}
