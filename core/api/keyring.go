// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package api

import (
	"context"
	"net/http"
	"strconv"
	"strings"

	"github.com/drover-project/drover/core/model"
)

// Keyring are the operations on the cluster's keys.
type Keyring interface {
	// SigningKeys returns the public keys that verify the cluster's signatures. With
	// create, which only the leader can do, it first creates the key that is missing for
	// programs that know only RSA.
	SigningKeys(ctx context.Context, create bool) ([]*model.JWK, error)
	// Introduce returns a token with which a new node may register.
	Introduce(ctx context.Context, req *IntroductionRequest) (token string, err error)
	// RotateKey creates a new key.
	RotateKey(ctx context.Context, req *RotateKeyRequest) (*model.RootKey, error)
	// RemoveKey removes a key; force, although tokens that it has signed may be in use.
	RemoveKey(ctx context.Context, id string, force bool) (index uint64, err error)
	// OIDCIssuer is the issuer of the tokens of tasks; "" if they name none.
	OIDCIssuer() string
}

// IntroductionRequest describes a token that introduces a node. An empty NodeName or
// NodePool stands for any; a TTL of 0 for the servers' default.
type IntroductionRequest struct {
	NodeName string
	NodePool string
	TTL      flexDuration
}

// introduceNode returns a token for a new node.
func (s *Server) introduceNode(_ http.ResponseWriter, r *http.Request) (any, error) {
	var req IntroductionRequest
	if err := decodeBody(r, &req, false); err != nil {
		return nil, err
	}
	token, err := s.backend.Introduce(r.Context(), &req)
	return struct{ JWT string }{token}, err
}

// RotateKeyRequest describes a new key.
type RotateKeyRequest struct {
	Full        bool  // re-encrypt all variables with it
	PublishTime int64 // when it becomes active (Unix ns); 0 means at once
}

// RootKeyMeta is the public part of a root key.
type RootKeyMeta struct {
	KeyID       string
	Algorithm   string
	State       string
	CreateTime  int64
	PublishTime int64
	CreateIndex uint64
	ModifyIndex uint64
}

func metaOfKey(k *model.RootKey) *RootKeyMeta {
	return &RootKeyMeta{
		KeyID: k.KeyID, Algorithm: k.Algorithm, State: k.State, CreateTime: k.CreateTime, PublishTime: k.PublishTime,
		CreateIndex: k.CreateIndex, ModifyIndex: k.ModifyIndex,
	}
}

// discovery is the document by which programs that know OpenID Connect find the keys.
type discovery struct {
	Issuer        string   `json:"issuer"`
	JWKS          string   `json:"jwks_uri"`
	ResponseTypes []string `json:"response_types_supported"`
	IDTokenAlgs   []string `json:"id_token_signing_alg_values_supported"`
	SubjectTypes  []string `json:"subject_types_supported"`
}

func (s *Server) oidcDiscovery(w http.ResponseWriter, _ *http.Request) (any, error) {
	issuer := s.backend.OIDCIssuer()
	if issuer == "" {
		return nil, fail(http.StatusNotFound, "OIDC Discovery endpoint disabled")
	}
	w.Header().Set("Cache-Control", "max-age="+strconv.Itoa(keysMaxAge))
	return &discovery{
		Issuer: issuer, JWKS: strings.TrimSuffix(issuer, "/") + "/.well-known/jwks.json", ResponseTypes: []string{"code"},
		IDTokenAlgs: []string{"RS256", "EdDSA"}, SubjectTypes: []string{"public"},
	}, nil
}

// keysMaxAge is how long, in seconds, verifiers may cache the public keys.
const keysMaxAge = 3600

// publicKeys reads the keys anew for each look, so that a query that waits for a new key
// gets it.
func publicKeys(_ View, q *query) result {
	leads := q.s.cfg.Leader == nil || q.s.cfg.Leader.Leads()
	keys, err := q.s.backend.SigningKeys(q.r.Context(), leads && !q.elsewhere)
	if err != nil {
		return failed(err)
	}
	q.header.Set("Cache-Control", "max-age="+strconv.Itoa(keysMaxAge))
	return shown(struct {
		Keys []*model.JWK `json:"keys"`
	}{orEmpty(keys)})
}

func listKeys(v View, q *query) result {
	p := page[*model.RootKey]{items: v.RootKeys(), order: func(k *model.RootKey) order { return order{created: k.CreateIndex, id: k.KeyID} }}
	return listOf(q, p, metaOfKey)
}

func (s *Server) rotateKey(w http.ResponseWriter, r *http.Request) (any, error) {
	req := &RotateKeyRequest{}
	var err error
	if req.Full, err = boolParam(r, "full"); err != nil {
		return nil, err
	}
	if req.PublishTime, err = intParam(r, "publish_time", 0); err != nil {
		return nil, err
	}
	if req.PublishTime < 0 {
		return nil, fail(http.StatusBadRequest, "publish_time is a time in nanoseconds since 1970")
	}
	for _, name := range []string{"algo", "algorithm"} { // the reference's client sends one, its documentation names the other
		if v := paramsOf(r).get(name); v != "" && v != model.RootKeyAlgorithm {
			return nil, fail(http.StatusBadRequest, "unknown algorithm "+strconv.Quote(v)+"; keys are "+model.RootKeyAlgorithm)
		}
	}
	key, err := s.backend.RotateKey(r.Context(), req)
	if err != nil {
		return nil, err
	}
	setIndex(w, key.ModifyIndex)
	return struct {
		Key   *RootKeyMeta
		Index uint64
	}{metaOfKey(key), key.ModifyIndex}, nil
}

func (s *Server) removeKey(w http.ResponseWriter, r *http.Request) (any, error) {
	force, err := boolParam(r, "force")
	if err != nil {
		return nil, err
	}
	index, err := s.backend.RemoveKey(r.Context(), r.PathValue("id"), force)
	if err != nil {
		return nil, err
	}
	setIndex(w, index)
	return &IndexResponse{Index: index}, nil
}
