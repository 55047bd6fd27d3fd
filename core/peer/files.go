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
	// partLimit is the time limit for one part of a file.
	partLimit = 10 * time.Second
)

type (
	filePart struct {
		Digest string
		Offset int64
	}
	fileBytes struct{ Data []byte }
)

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
	address := p.cfg.Address(server)
	if address == "" {
		return nil, errdefs.NotFoundf("server %s is no member of the cluster any more", server)
	}
	c, err := p.Client(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, partLimit)
	defer cancel()
	if err := c.Reach(ctx); err != nil {
		return nil, err
	}
	part, err := rpc.AskPeer[fileBytes](ctx, c, methodFilePart, &filePart{digest, offset})
	return part.Data, err
}
