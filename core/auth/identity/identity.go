// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package identity owns the tokens of tasks: JSON Web Tokens that say which task of which
// job shows them. Every server signs them, with keys of the root keys of core/auth/keyring,
// at the moment at which a node asks, so nothing is written to the log or stored. A token is
// accepted only while the allocation of its task lives. core/dispatch asks the package on
// behalf of nodes; core/server composes it.
package identity

import (
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Algorithms with which tokens are signed.
const (
	EdDSA = "EdDSA"
	RS256 = "RS256"
)

// skew is how far the clocks of servers may differ.
const skew = 10 * time.Second

// Keys are the signing keys of a root key. *keyring.Keyring implements it.
type Keys interface {
	TaskKey(root *model.RootKey) (ed25519.PrivateKey, error)
	// SigningKey returns the RSA key of a root key that has one.
	SigningKey(root *model.RootKey) (*rsa.PrivateKey, error)
}

// Config configures a Signer.
type Config struct {
	Keys      Keys
	Region    string
	Issuer    string // claim iss; "" leaves it out
	Algorithm string // "" is EdDSA
	NewID     func() string
}

// Signer signs and checks tokens of tasks.
type Signer struct{ cfg Config }

// New returns a Signer.
func New(cfg Config) *Signer {
	if cfg.Algorithm == "" {
		cfg.Algorithm = EdDSA
	}
	return &Signer{cfg}
}

// claims are the content of a token, with the names of the reference.
type claims struct {
	jwt.RegisteredClaims
	Namespace  string `json:"nomad_namespace"`
	JobID      string `json:"nomad_job_id"`
	Task       string `json:"nomad_task,omitempty"`
	AllocID    string `json:"nomad_allocation_id"`
	Service    string `json:"nomad_service,omitempty"`
	NodeID     string `json:"nomad_node_id,omitempty"`
	NodeName   string `json:"nomad_node_name,omitempty"`
	NodePool   string `json:"nomad_node_pool,omitempty"`
	NodeClass  string `json:"nomad_node_class,omitempty"`
	Datacenter string `json:"nomad_node_datacenter,omitempty"`
}

// KeyID returns the id, in the header of tokens and in the JWKS, of a root key's key for an
// algorithm. The RSA key has the id of the root key, as with the reference.
func KeyID(root, algorithm string) string {
	if algorithm == RS256 {
		return root
	}
	return root + edSuffix
}

const edSuffix = ".ed25519"

// Sign returns a token for an identity of a task of an alloc, which has its job. The task is ""
// for a service of the group; the subject then has the service in its place.
func (s *Signer) Sign(view *state.View, a *model.Allocation, task string, id *model.WorkloadIdentity, now time.Time) (string, error) {
	root := view.ActiveRootKey()
	if root == nil {
		return "", errdefs.Unavailablef("there is no root key yet; the leader makes one, try again")
	}
	name := id.Name
	if id.IsDefault() {
		name = model.DefaultIdentity
	}
	job := a.JobID
	if a.Job.ParentID != "" { // launches of a periodic or dispatched job act as that job
		job = a.Job.ParentID
	}
	workload := task
	if task == "" {
		workload = id.ServiceName
	}
	c := &claims{Namespace: a.Namespace, JobID: job, Task: task, AllocID: a.ID, Service: id.ServiceName}
	c.RegisteredClaims = jwt.RegisteredClaims{
		Issuer: s.cfg.Issuer, Subject: strings.Join([]string{s.cfg.Region, a.Namespace, job, a.TaskGroup, workload, name}, ":"), ID: s.cfg.NewID(),
		Audience: jwt.ClaimStrings(id.Audience), IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now),
	}
	if len(c.Audience) == 0 {
		c.Audience = jwt.ClaimStrings{model.DefaultAudience}
	}
	if id.TTL > 0 {
		c.ExpiresAt = jwt.NewNumericDate(now.Add(id.TTL))
	}
	c.add(id.Claims(), view.NodeByID(a.NodeID))
	return s.sign(root, c)
}

// add adds the extra claims, which are facts of the node.
func (c *claims) add(names []string, node *model.Node) {
	if node == nil {
		return
	}
	for _, name := range names {
		switch name {
		case "nomad_node_id":
			c.NodeID = node.ID
		case "nomad_node_name":
			c.NodeName = node.Name
		case "nomad_node_pool":
			c.NodePool = node.NodePool
		case "nomad_node_class":
			c.NodeClass = node.NodeClass
		case "nomad_node_datacenter":
			c.Datacenter = node.Datacenter
		}
	}
}

func (s *Signer) sign(root *model.RootKey, c *claims) (string, error) {
	var key any
	var method jwt.SigningMethod = jwt.SigningMethodEdDSA
	var err error
	if s.cfg.Algorithm == RS256 {
		if root.PublicRSA == nil {
			return "", errdefs.Unavailablef("the root key %s has no RSA key yet; the leader makes one if its server.identity_algorithm is %q, as it must be on all servers", root.KeyID, RS256)
		}
		method = jwt.SigningMethodRS256
		key, err = s.cfg.Keys.SigningKey(root)
	} else {
		key, err = s.cfg.Keys.TaskKey(root)
	}
	if err != nil {
		return "", err
	}
	token := jwt.NewWithClaims(method, c)
	token.Header["kid"] = KeyID(root.KeyID, s.cfg.Algorithm)
	out, err := token.SignedString(key)
	if err != nil {
		return "", errdefs.Internalf("sign the token of a task: %w", err)
	}
	return out, nil
}

// Check returns nil for a token of a living task of this cluster for the API, and otherwise
// an error of class PermissionDenied. Tokens for other audiences are refused: a recipient
// of such a token could otherwise act as the task.
func (s *Signer) Check(view *state.View, text string, now time.Time) error {
	var c claims
	_, err := jwt.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) { return s.public(view, t) },
		jwt.WithValidMethods([]string{EdDSA, RS256}), jwt.WithLeeway(skew), jwt.WithIssuedAt(), jwt.WithTimeFunc(func() time.Time { return now }))
	switch {
	case errdefs.IsUnavailable(err):
		return err
	case errors.Is(err, jwt.ErrTokenMalformed):
		return errdefs.PermissionDeniedf("the token is not a JSON Web Token")
	case errors.Is(err, jwt.ErrTokenNotValidYet) && c.NotBefore != nil:
		return errdefs.PermissionDeniedf("the token is valid from %s on, and the clock of this server says %s; correct the clocks of the servers: %w",
			c.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), err)
	case err != nil:
		return errdefs.PermissionDeniedf("the token is not valid: %w", err)
	case !slices.Contains(c.Audience, model.DefaultAudience):
		return errdefs.PermissionDeniedf("the token is for the audience %q and not for %q", []string(c.Audience), model.DefaultAudience)
	}
	a := view.AllocByID(c.AllocID)
	switch {
	case a == nil || a.Namespace != c.Namespace:
		return errdefs.PermissionDeniedf("the allocation %q of the token does not exist", c.AllocID)
	case a.ClientTerminalStatus():
		return errdefs.PermissionDeniedf("the allocation %q of the token has ended", c.AllocID)
	}
	return nil
}

// public returns the key that verifies a token, by the key id in its header, which also
// determines the algorithm.
func (s *Signer) public(view *state.View, t *jwt.Token) (any, error) {
	kid, _ := t.Header["kid"].(string)
	id, ed := strings.CutSuffix(kid, edSuffix)
	root := view.RootKeyByID(id)
	if root == nil || ed != (t.Method == jwt.SigningMethodEdDSA) {
		return nil, errors.New("its key is not in the keyring")
	}
	if ed {
		key, err := s.cfg.Keys.TaskKey(root)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	}
	if root.PublicRSA == nil {
		return nil, errors.New("its key is not in the keyring")
	}
	return x509.ParsePKIXPublicKey(root.PublicRSA)
}
