// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package endpoint

import (
	"context"

	"github.com/drover-project/drover/core/api"
	"github.com/drover-project/drover/core/auth/identity"
	"github.com/drover-project/drover/core/auth/keyring"
	"github.com/drover-project/drover/core/control/keys"
	"github.com/drover-project/drover/core/fsm"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// EnsureKey creates the first root key of a cluster; the leader calls it.
func (e *Endpoint) EnsureKey(ctx context.Context) error {
	if e.RSA {
		return e.ensureSigningKey(ctx)
	}
	_, err := e.activeKey(ctx)
	return err
}

func (e *Endpoint) activeKey(ctx context.Context) (*model.RootKey, error) {
	if key := e.Store.View().ActiveRootKey(); key != nil {
		return key, nil
	}
	key, err := e.newKey()
	if err != nil {
		return nil, err
	}
	if _, err := e.propose(ctx, &fsm.UpsertRootKey{Key: key, OnlyFirst: true}); err != nil {
		return nil, err
	}
	key = e.Store.View().ActiveRootKey()
	if key == nil {
		return nil, errdefs.Unavailablef("the first root key is not here yet; try again")
	}
	return key, nil
}

// newKey creates a root key that every server can open.
func (e *Endpoint) newKey() (*model.RootKey, error) {
	return e.Keyring.NewKey(newID(), e.Now(), e.Store.View().ServerKeys())
}

// SigningKeys implements api.Keyring. Generating an RSA key takes about 100 ms of processor
// time, so that is done at the first request and not at startup.
func (e *Endpoint) SigningKeys(ctx context.Context, create bool) ([]*model.JWK, error) {
	if create {
		if err := e.ensureSigningKey(ctx); err != nil {
			return nil, err
		}
	}
	var out, more []*model.JWK
	for key := range e.Store.View().RootKeys() {
		jwk, err := keyring.PublicJWK(key)
		if err != nil {
			return nil, err
		}
		if jwk != nil {
			out = append(out, jwk)
		}
		if jwk, err = e.Keyring.TaskJWK(key, identity.KeyID(key.KeyID, identity.EdDSA)); err != nil {
			return nil, err
		}
		more = append(more, jwk)
	}
	return append(out, more...), nil // programs that know only RSA must find the RSA keys first
}

// OIDCIssuer implements api.Keyring.
func (e *Endpoint) OIDCIssuer() string { return e.Issuer }

func (e *Endpoint) ensureSigningKey(ctx context.Context) error {
	e.signing.Lock() // one generation at a time
	defer e.signing.Unlock()
	key, err := e.activeKey(ctx)
	if err != nil || key.PublicRSA != nil {
		return err
	}
	if key, err = e.Keyring.WithSigningKey(key); err != nil {
		return err
	}
	_, err = e.propose(ctx, &fsm.UpsertRootKey{Key: key, OnlyKnown: true})
	return err
}

// RotateKey creates a new root key. Older keys still decrypt what they encrypted; with
// full, all variables are re-encrypted. With a publish time, the key becomes active at
// that time; until then it is published beside the active one.
func (e *Endpoint) RotateKey(ctx context.Context, req *api.RotateKeyRequest) (*model.RootKey, error) {
	key, err := e.newKey()
	if err != nil {
		return nil, err
	}
	if req.PublishTime != 0 {
		if err := e.prepublish(&key, req); err != nil {
			return nil, err
		}
	}
	if e.RSA && key.PublicRSA == nil {
		if key, err = e.Keyring.WithSigningKey(key); err != nil {
			return nil, err
		}
	}
	id := key.KeyID
	if _, err := e.propose(ctx, &fsm.UpsertRootKey{Key: key}); err != nil {
		return nil, err
	}
	key = e.Store.View().RootKeyByID(id)
	if key == nil {
		return nil, errdefs.Abortedf("the new key was removed right after it was made")
	}
	if req.Full {
		if err := e.reseal(ctx, key); err != nil {
			return nil, err
		}
	}
	return key, nil
}

// prepublish makes a new key a prepublished one, with the signing key that is
// published.
func (e *Endpoint) prepublish(key **model.RootKey, req *api.RotateKeyRequest) error {
	switch {
	case req.Full:
		return errdefs.InvalidArgumentf("a key that is not used yet seals nothing: rotate with full once it is active")
	case req.PublishTime <= e.Now().UnixNano():
		return errdefs.InvalidArgumentf("publish_time is not in the future; leave it out to use the key at once")
	}
	ready, err := e.Keyring.WithSigningKey(*key)
	if err != nil {
		return err
	}
	ready.State, ready.PublishTime = model.RootKeyPrepublished, req.PublishTime
	*key = ready
	return nil
}

// resealBatch is the number of variables that one log entry re-encrypts: at most 4
// MiB.
const resealBatch = 64

func (e *Endpoint) reseal(ctx context.Context, key *model.RootKey) error {
	view := e.Store.View()
	batch := &fsm.Batch{}
	send := func() error {
		if len(batch.Commands) == 0 {
			return nil
		}
		_, err := e.propose(ctx, batch)
		batch = &fsm.Batch{}
		if errdefs.IsConflict(err) || errdefs.IsNotFound(err) {
			return nil // deleted, or written meanwhile and so with the new key
		}
		return err
	}
	for row := range view.Variables("", "") {
		if row.KeyID == key.KeyID {
			continue
		}
		plain, err := e.OpenVariable(row)
		if err != nil {
			return err
		}
		fresh := *row
		fresh.KeyID = key.KeyID
		if fresh.Data, err = e.Keyring.Seal(key, row.Namespace, row.Path, plain.Items); err != nil {
			return err
		}
		batch.Commands = append(batch.Commands, &fsm.PutVariable{Variable: &fresh, Op: fsm.VariableReseal, CAS: true, Index: row.ModifyIndex})
		if len(batch.Commands) == resealBatch {
			if err := send(); err != nil {
				return err
			}
		}
	}
	for row := range view.CSIVolumes() {
		if row.SecretsKeyID == "" || row.SecretsKeyID == key.KeyID {
			continue
		}
		secrets, err := e.openSecrets(row)
		if err != nil {
			return err
		}
		fresh := *row
		fresh.SecretsKeyID = key.KeyID
		if fresh.SealedSecrets, err = e.Keyring.Seal(key, row.Namespace, secretsPath(row), secrets); err != nil {
			return err
		}
		batch.Commands = append(batch.Commands, &fsm.PutCSIVolume{Volume: &fresh})
		if err := send(); err != nil {
			return err
		}
	}
	return send()
}

// RemoveKey removes a root key that is no longer in use. With force, tokens that it may have
// signed become invalid.
func (e *Endpoint) RemoveKey(ctx context.Context, id string, force bool) (uint64, error) {
	view := e.Store.View()
	if key := view.RootKeyByID(id); key != nil && key.State == model.RootKeyInactive && !force && keys.Signed(view, e.Now())(key) {
		return 0, errdefs.FailedPreconditionf("root key %s in use, cannot delete: living allocations may have tokens that it has signed; stop or restart them with new allocations, or use force, which makes those tokens invalid", id)
	}
	return e.propose(ctx, &fsm.DeleteRootKey{KeyID: id})
}
