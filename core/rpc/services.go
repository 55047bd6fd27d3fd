// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"github.com/drover-project/drover/core/model"
)

// ServiceQuery requests the registrations of services, either on behalf of a job that runs on
// the node, which reads the job's own namespace, or for the node's DNS server.
type ServiceQuery struct {
	Namespace string // of the job and of the services
	JobID     string
	Name      string // name of one service; "" lists all services of the namespace
	// Names is set if the DNS server of the node asks. It asks for no job, and may ask for
	// one service of any namespace.
	Names bool

	// Since is the Index of the node's last answer. If it is set, the servers answer
	// when the result may differ, or after Wait.
	Since uint64
	Wait  time.Duration
}

// ServiceAnswer is the result of a ServiceQuery. Index identifies the version of the
// result; it is at least 1.
type ServiceAnswer struct {
	Index     uint64
	Instances []*model.ServiceRegistration // set if one service was asked for
	Services  []ServiceTags                // set if all services were asked for
}

// ServiceTags is a service with the tags of all its instances.
type ServiceTags struct {
	Name string
	Tags []string
}

const methodServices = "Services"

type servicesMessage struct {
	ID    Identity
	Query ServiceQuery
}

func servicesMethod() grpc.MethodDesc {
	return unary(methodServices, func(ctx context.Context, s Servers, m *servicesMessage) (*ServiceAnswer, error) {
		answer, err := s.Services(ctx, m.ID, m.Query)
		return &answer, err
	})
}

// Services implements Servers.
func (c *Client) Services(ctx context.Context, id Identity, q ServiceQuery) (answer ServiceAnswer, err error) {
	err = c.ask(ctx, id, methodServices, &servicesMessage{ID: id, Query: q}, &answer)
	return answer, err
}
