// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consulplugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	consul "github.com/hashicorp/consul/api"

	"github.com/drover-project/drover/sdk/errdefs"
	registry "github.com/drover-project/drover/sdk/registry/v1"
)

// Tokens are read from Consul's servers, which may learn of a new one a little later than the
// server that has made it.
const (
	readableWithin = 5 * time.Second
	readableFirst  = 20 * time.Millisecond
	readablePause  = 500 * time.Millisecond
)

// Login implements registry.Authenticator, with an auth method of type jwt.
func (r *Registry) Login(ctx context.Context, req registry.LoginRequest) (*registry.Login, error) {
	c, err := r.cluster(req.Cluster)
	if err != nil {
		return nil, err
	}
	method := c.method(req.For)
	what := fmt.Sprintf("log in at the auth method %q of the Consul agent at %s", method, c.Address)
	var token *consul.ACLToken
	err = c.within(ctx, func(ctx context.Context) error {
		token, _, err = c.api.ACL().Login(&consul.ACLLoginParams{AuthMethod: method, BearerToken: req.Token, Meta: req.Meta}, (&consul.WriteOptions{}).WithContext(ctx))
		return err
	})
	if err != nil {
		return nil, classified(ctx, what, err)
	}
	out := &registry.Login{Credential: registry.Credential{ID: token.AccessorID, Secret: token.SecretID}}
	if token.ExpirationTime != nil {
		out.TTL = max(token.ExpirationTime.Sub(cmp.Or(token.CreateTime, time.Now())), time.Second)
	}
	if err := c.awaitToken(ctx, out.Secret); err != nil {
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
		defer cancel()
		return nil, errors.Join(classified(ctx, what+": read the new token", err), c.logout(bound, out.Secret))
	}
	return out, nil
}

// method returns the auth method for a kind of workload.
func (c *cluster) method(kind registry.LoginFor) string {
	if kind == registry.ForService {
		return cmp.Or(c.ServiceMethod, defaultMethod)
	}
	return cmp.Or(c.TaskMethod, defaultMethod)
}

// awaitToken returns once the agent knows the token, so that the first request with it does
// not fail.
func (c *cluster) awaitToken(ctx context.Context, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, readableWithin)
	defer cancel()
	for pause := readableFirst; ; pause = min(2*pause, readablePause) {
		_, _, err := c.api.ACL().TokenReadSelf((&consul.QueryOptions{Token: secret, AllowStale: true}).WithContext(ctx))
		if !unknownToken(err) {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// Logout implements registry.Authenticator.
func (r *Registry) Logout(ctx context.Context, cluster string, cred registry.Credential) error {
	c, err := r.cluster(cluster)
	if err != nil {
		return err
	}
	return classified(ctx, fmt.Sprintf("log out of the Consul agent at %s", c.Address), c.logout(ctx, cred.Secret))
}

func (c *cluster) logout(ctx context.Context, secret string) error {
	err := c.within(ctx, func(ctx context.Context) error {
		_, err := c.api.ACL().Logout((&consul.WriteOptions{Token: secret}).WithContext(ctx))
		return err
	})
	if unknownToken(err) {
		return nil
	}
	return err
}

// unknownToken reports whether Consul does not know the token of a request.
func unknownToken(err error) bool {
	var status consul.StatusError
	return errors.As(err, &status) && (status.Code == http.StatusForbidden || status.Code == http.StatusUnauthorized) && strings.Contains(status.Body, "ACL not found")
}

// withLogin gives the error of a request with a workload's credential its reason.
func withLogin(err, cause error) error {
	if unknownToken(cause) {
		return errdefs.WithReason(err, registry.ReasonLogin)
	}
	return err
}
