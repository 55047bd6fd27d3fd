// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

func TestAPluginFileIsReadFromEveryServerAndOutlivesTheOneToWhichItWasUploaded(t *testing.T) {
	c := testkit.NewServers(t, 3, func(cfg *server.Config) { cfg.PluginRegistry = true })
	lead, follower := c.Leader(), c.Follower()
	upload := func(text string) (digest string) {
		t.Helper()
		sum := sha256.Sum256([]byte(text))
		digest = "sha256:" + hex.EncodeToString(sum[:])
		if _, err := lead.Endpoint().UploadPluginFile(t.Context(), digest, bytes.NewReader([]byte(text))); err != nil {
			t.Fatal(err)
		}
		have := 0
		for _, m := range c.All {
			if _, err := m.Endpoint().PluginFile(digest); err == nil {
				have++
			}
		}
		if have < 2 {
			t.Errorf("an upload was acknowledged, and %d of 3 servers have the file", have)
		}
		return digest
	}
	asked, registered := upload("asked for by a node"), upload("registered")

	id := rpc.Identity{NodeID: "7d8f1c8e-0000-4000-8000-000000000001", SecretID: "7d8f1c8e-0000-4000-8000-000000000002"}
	node := &model.Node{ID: id.NodeID, SecretID: id.SecretID, Name: "n", Datacenter: "dc1", NodePool: "default"}
	if _, err := follower.Sessions().Register(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	var got []byte
	take := func(b []byte) error { got = append(got, b...); return nil }
	if err := follower.Sessions().PluginFile(t.Context(), id, asked, take); err != nil || string(got) != "asked for by a node" {
		t.Errorf("a node reads %q from a follower: %v", got, err)
	}
	if err := follower.Sessions().PluginFile(t.Context(), id, "sha256:"+hex.EncodeToString(make([]byte, 32)), take); !errdefs.IsNotFound(err) {
		t.Errorf("a file that no server has: %v", err)
	}

	spec := &model.PluginSpec{Name: "p", Release: &model.PluginRelease{Digest: registered, Source: model.PluginSourceUploaded}}
	if _, _, err := lead.Endpoint().RegisterPlugin(t.Context(), spec, nil); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.All {
		testkit.Eventually(t, "every server has the registered file", func() bool {
			_, err := m.Endpoint().PluginFile(registered)
			return err == nil
		})
	}
}
