// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package peer

import (
	"context"
	"time"

	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
)

const (
	methodFilePart = "PluginFilePart"
	methodKeepFile = "KeepPluginFile"
	// partLimit is the time limit for one part of a file.
	partLimit = 10 * time.Second
	// keepLimit is the time limit for the copy of a file by another server.
	keepLimit = 5 * time.Minute
)

type (
	filePart struct {
		Digest string
		Offset int64
	}
	fileBytes struct{ Data []byte }
	// keepFile asks a server to copy a file of another one, From.
	keepFile struct{ From, Digest string }
)

// keepFiles is the call that makes a server copy a plugin file.
func (p *Peers) keepFiles() rpc.PeerMethod {
	return rpc.NewPeerMethod(methodKeepFile, func(ctx context.Context, k *keepFile) (nothing, error) {
		return nothing{}, p.cfg.TakeFile(ctx, k.From, k.Digest)
	})
}

// KeepFile makes another server copy a plugin file of this one: see mirror.Mirror.Keep.
func (p *Peers) KeepFile(ctx context.Context, server, digest string) error {
	c, err := p.reach(ctx, server)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, keepLimit)
	defer cancel()
	_, err = rpc.AskPeer[nothing](ctx, c, methodKeepFile, &keepFile{p.cfg.ID, digest})
	return err
}

// reach returns a connection to another server, which is there.
func (p *Peers) reach(ctx context.Context, server string) (*rpc.Client, error) {
	address := p.cfg.Address(server)
	if address == "" {
		return nil, errdefs.NotFoundf("server %s is not a member of the cluster any more", server)
	}
	c, err := p.Client(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	return c, c.Reach(ctx)
}

// fileParts is the call for a part of a plugin file, which every server answers with its
// own files.
func (p *Peers) fileParts() rpc.PeerMethod {
	return rpc.NewPeerMethod(methodFilePart, func(_ context.Context, part *filePart) (fileBytes, error) {
		data, err := p.cfg.FilePart(part.Digest, part.Offset)
		return fileBytes{data}, err
	})
}

// FilePart returns a part of a plugin file of another server: see pluginfiles.Store.Part.
func (p *Peers) FilePart(ctx context.Context, server, digest string, offset int64) ([]byte, error) {
	c, err := p.reach(ctx, server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	part, err := rpc.AskPeer[fileBytes](ctx, c, methodFilePart, &filePart{digest, offset})
	return part.Data, err
}
