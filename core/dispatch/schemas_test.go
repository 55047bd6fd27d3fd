// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dispatch_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/drover-project/drover/core/driverschema"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/core/rpc"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// published is what a driver publishes.
func published(t *testing.T, driver string, attributes ...string) (hash string, data []byte) {
	t.Helper()
	b := &driverschema.Body{Driver: driver}
	for _, a := range attributes {
		b.Task.Attributes = append(b.Task.Attributes, schema.Attribute{Name: a, Type: schema.String})
	}
	hash, data, err := b.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return hash, data
}

func nodeWith(id, driver, hash string) *model.Node {
	n := node(id)
	n.Drivers = map[string]*model.DriverInfo{driver: {Detected: true, SchemaHash: hash}}
	return n
}

func TestALeaseAsksForASchemaUntilSomebodyHasBroughtIt(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		hash, data := published(t, "docker", "image")
		for _, id := range []string{idN1, idN2} {
			lease, err := s.Register(ctx, nodeWith(id, "docker", hash))
			if err != nil || !slices.Equal(lease.Missing, []string{hash}) {
				t.Fatalf("lease %+v, %v", lease, err)
			}
		}
		if lease, err := s.Beat(ctx, identity(idN2)); err != nil || !slices.Equal(lease.Missing, []string{hash}) {
			t.Fatalf("a beat forgets what is missing: %+v, %v", lease, err)
		}
		before := s.log.writes.Load()
		var work sync.WaitGroup
		for _, id := range []string{idN1, idN2} {
			work.Go(func() {
				if err := s.PutDriverSchemas(ctx, identity(id), [][]byte{data}); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if n := s.log.writes.Load() - before; n != 1 {
			t.Fatalf("two nodes with one schema made %d log entries", n)
		}
		if row := s.store.View().DriverSchemaByHash(hash); row == nil || row.Driver != "docker" || !bytes.Equal(row.Body, data) {
			t.Fatalf("stored %+v", row)
		}
		if lease, err := s.Beat(ctx, identity(idN1)); err != nil || len(lease.Missing) != 0 {
			t.Fatalf("a lease asks for what is there: %+v, %v", lease, err)
		}
	})
}

func TestANodeMayOnlyBringWhatItsOwnDriversPublish(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		hash, data := published(t, "docker", "image")
		other, foreign := published(t, "exec", "command")
		if _, err := s.Register(ctx, nodeWith(idN1, "docker", hash)); err != nil {
			t.Fatal(err)
		}
		_, tampered := published(t, "docker", "image", "more")
		big := fmt.Appendf(nil, `{"driver":"docker","task":{"attributes":[{"name":%q}]}}`, bytes.Repeat([]byte("x"), driverschema.MaxBytes))
		for what, body := range map[string][]byte{"of another driver": foreign, "with another hash": tampered, "that is no JSON": []byte("{"), "that is too large": big} {
			if err := s.PutDriverSchemas(ctx, identity(idN1), [][]byte{body}); !errdefs.IsInvalidArgument(err) {
				t.Errorf("a schema %s: %v", what, err)
			}
		}
		if err := s.PutDriverSchemas(ctx, rpc.Identity{NodeID: idN1, SecretID: "guess"}, [][]byte{data}); !errdefs.IsPermissionDenied(err) {
			t.Errorf("with a wrong secret: %v", err)
		}
		if s.store.View().DriverSchemaByHash(other) != nil || s.store.View().DriverSchemaByHash(hash) != nil {
			t.Error("something was stored")
		}
	})
}

func TestANodeCannotNameASchemaOrAVersionAsItLikes(t *testing.T) {
	inBubble(t, func(t *testing.T, s *servers, ctx context.Context) {
		n := nodeWith(idN1, "docker", strings.Repeat("x", 1<<20))
		n.Drivers["docker"].PluginVersion = strings.Repeat("1", 1<<20)
		lease, err := s.Register(ctx, n)
		if err != nil || len(lease.Missing) != 0 {
			t.Fatalf("lease %.100v, %v", lease, err)
		}
		uses := s.store.View().DriverUses("docker")
		if len(uses) != 1 || uses[0].Hash != "" || len(uses[0].Version) != 64 {
			t.Fatalf("stored uses %.200v", uses)
		}
		if len(n.Drivers["docker"].PluginVersion) != 1<<20 {
			t.Fatal("what the node sent was changed")
		}
	})
}
