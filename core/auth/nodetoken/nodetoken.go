// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package nodetoken owns the tokens of nodes: introductions, which let a new node join, and
// identities, which registered nodes show at the begin of each session. Both are JSON Web
// Tokens, signed with Ed25519 keys that are derived from the cluster's root keys, so every
// server can verify what another one has signed, and nothing has to be stored. The package
// decides who is admitted; core/dispatch asks it. core/endpoint and core/server import it,
// too.
package nodetoken

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// Values of Config.Enforcement: what happens to new nodes that are not introduced.
const (
	None   = "none"
	Warn   = "warn"
	Strict = "strict"
)

// The default lifetimes of introductions, and the lifetime of identities if the pool of the
// node does not.
const (
	DefaultTTL  = 5 * time.Minute
	DefaultMax  = 30 * time.Minute
	IdentityTTL = 24 * time.Hour
)

// The kinds of tokens. With the region they are the audience.
const (
	introduction = "drover.node.introduction"
	identity     = "drover.node.identity"
)

func (t *Tokens) audience(kind string) string { return kind + "/" + t.cfg.Region }

// skew is how far the clocks of servers may differ.
const skew = 30 * time.Second

// Keys derives the signing key of a root key. *keyring.Keyring implements it.
type Keys interface {
	NodeKey(root *model.RootKey) (ed25519.PrivateKey, error)
}

// Config configures Tokens.
type Config struct {
	Keys        Keys
	Region      string
	Enforcement string        // "" is None
	DefaultTTL  time.Duration // lifetime of introductions
	MaxTTL      time.Duration
	NewID       func() string
	Logger      hclog.Logger
}

// Tokens issues and checks tokens.
type Tokens struct{ cfg Config }

// New returns Tokens.
func New(cfg Config) *Tokens {
	if cfg.Enforcement == "" {
		cfg.Enforcement = None
	}
	if cfg.DefaultTTL <= 0 {
		cfg.DefaultTTL = DefaultTTL
	}
	if cfg.MaxTTL <= 0 {
		cfg.MaxTTL = DefaultMax
	}
	return &Tokens{cfg}
}

// claims are the content of a token, with the reference's names. A field that is empty in
// an introduction does not restrict the node.
type claims struct {
	jwt.RegisteredClaims
	NodeID     string `json:"nomad_node_id,omitempty"`
	NodeName   string `json:"nomad_node_name,omitempty"` // only in introductions
	NodePool   string `json:"nomad_node_pool,omitempty"`
	NodeClass  string `json:"nomad_node_class,omitempty"`
	Datacenter string `json:"nomad_node_datacenter,omitempty"`
}

// Introduce returns a token with which a new node of the name and the pool, where they are
// given, may register. A ttl of 0 is the default.
func (t *Tokens) Introduce(root *model.RootKey, name, pool string, ttl time.Duration, now time.Time) (string, error) {
	switch {
	case ttl < 0:
		return "", errdefs.InvalidArgumentf("TTL must not be negative")
	case ttl > t.cfg.MaxTTL:
		return "", errdefs.InvalidArgumentf("a TTL of %s is more than the %s that server.client_introduction.max_identity_ttl allows", ttl, t.cfg.MaxTTL)
	case ttl == 0:
		ttl = t.cfg.DefaultTTL
	}
	return t.sign(root, claims{NodeName: name, NodePool: pool}, introduction, ttl, now)
}

func (t *Tokens) sign(root *model.RootKey, c claims, kind string, ttl time.Duration, now time.Time) (string, error) {
	key, err := t.cfg.Keys.NodeKey(root)
	if err != nil {
		return "", err
	}
	c.RegisteredClaims = jwt.RegisteredClaims{
		Audience: jwt.ClaimStrings{t.audience(kind)}, ID: t.cfg.NewID(), Subject: c.NodeID,
		IssuedAt: jwt.NewNumericDate(now), NotBefore: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(ttl)),
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, &c)
	token.Header["kid"] = root.KeyID
	out, err := token.SignedString(key)
	if err != nil {
		return "", errdefs.Internalf("sign a token of a node: %w", err)
	}
	return out, nil
}

// errUnknownKey means that the root key was removed, so its tokens count as absent.
var errUnknownKey = errors.New("its key is not in the keyring any more")

// read returns the content of a token of the kind that this cluster has signed.
func (t *Tokens) read(view *state.View, text, kind string, now time.Time) (*claims, error) {
	var c claims
	_, err := jwt.ParseWithClaims(text, &c, func(token *jwt.Token) (any, error) {
		id, _ := token.Header["kid"].(string)
		root := view.RootKeyByID(id)
		if root == nil {
			return nil, errUnknownKey
		}
		key, err := t.cfg.Keys.NodeKey(root)
		if err != nil {
			return nil, err
		}
		return key.Public(), nil
	}, jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}), jwt.WithAudience(t.audience(kind)), jwt.WithExpirationRequired(),
		jwt.WithLeeway(skew), jwt.WithTimeFunc(func() time.Time { return now }))
	return &c, err
}

// Admit returns PermissionDenied if an unknown node may not register with the token that it
// shows.
func (t *Tokens) Admit(view *state.View, node *model.Node, now time.Time) error {
	if t.cfg.Enforcement == None {
		return nil
	}
	err := t.introduced(view, node, now)
	if err == nil {
		return nil
	}
	if t.cfg.Enforcement == Warn {
		t.cfg.Logger.Warn("a new node registers without a valid introduction; with client_introduction { enforcement = \"strict\" } it would be refused",
			"node_id", node.ID, "name", node.Name, "pool", node.NodePool, "reason", err)
		return nil
	}
	return errdefs.PermissionDeniedf("node %q (%q) is not introduced: %w; create a token with `drover node intro create` and give it to the new agent with -client-intro-token or as the file intro_token.jwt in its state directory", node.ID, node.Name, err)
}

// introduced returns why a node is not introduced. A removed node may register again with
// its own identity instead of an introduction.
func (t *Tokens) introduced(view *state.View, node *model.Node, now time.Time) error {
	if node.Token == "" {
		return errors.New("it shows no token")
	}
	if c, err := t.read(view, node.Token, identity, now); err == nil && c.NodeID == node.ID {
		return nil
	}
	c, err := t.read(view, node.Token, introduction, now)
	pool := node.NodePool
	if pool == "" {
		pool = model.NodePoolDefault
	}
	switch {
	case err != nil:
		return fmt.Errorf("its token is not valid: %w", err)
	case c.NodeName != "" && c.NodeName != node.Name:
		return fmt.Errorf("its token is for a node of the name %q", c.NodeName)
	case c.NodePool != "" && c.NodePool != pool:
		return fmt.Errorf("its token is for a node of the pool %q", c.NodePool)
	}
	return nil
}

// Identity returns a new identity for a registered node, and "" if the one that it shows
// has more than half of its time left. PermissionDenied: it shows the identity of another
// node or another cluster. A node with an expired identity, or without one, has already
// proven its identity by its secret; so has one whose identity is from the future, because
// the clock of the server that signed it was ahead.
func (t *Tokens) Identity(view *state.View, node *model.Node, shown string, now time.Time) (string, error) {
	root := view.ActiveRootKey()
	if root == nil {
		return "", errdefs.Unavailablef("there is no root key yet")
	}
	if shown != "" {
		c, err := t.read(view, shown, identity, now)
		switch {
		case errors.Is(err, jwt.ErrTokenInvalidAudience): // an introduction, which needs no further check
		case errors.Is(err, jwt.ErrTokenExpired), errors.Is(err, jwt.ErrTokenNotValidYet), errors.Is(err, errUnknownKey):
		case errdefs.IsUnavailable(err):
			return "", err // this server cannot open the key yet; another one can
		case err != nil:
			return "", errdefs.PermissionDeniedf("the identity that node %q shows is not valid: %w; remove the file or the copy that it comes from", node.ID, err)
		case c.NodeID != node.ID:
			return "", errdefs.PermissionDeniedf("node %q shows the identity of node %q: its data directory was mixed with another node's; give it a data directory of its own", node.ID, c.NodeID)
		case now.Sub(c.IssuedAt.Time) < c.ExpiresAt.Sub(c.IssuedAt.Time)/2:
			return "", nil
		}
	}
	ttl := IdentityTTL
	if pool := view.NodePoolByName(node.NodePool); pool != nil && pool.NodeIdentityTTL > 0 {
		ttl = pool.NodeIdentityTTL
	}
	return t.sign(root, claims{NodeID: node.ID, NodePool: node.NodePool, NodeClass: node.NodeClass, Datacenter: node.Datacenter}, identity, ttl, now)
}
