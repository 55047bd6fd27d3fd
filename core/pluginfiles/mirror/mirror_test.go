// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package mirror_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/core/pluginfiles/mirror"
	"github.com/drover-project/drover/core/state"
	"github.com/drover-project/drover/sdk/errdefs"
)

// servers are the files of some servers, of which some do not answer, and some are of a
// release that cannot be asked to copy a file.
type servers struct {
	all       map[string]*mirror.Mirror
	away, old map[string]bool
}

func newServers(t *testing.T, ids ...string) *servers {
	t.Helper()
	s := &servers{all: map[string]*mirror.Mirror{}, away: map[string]bool{}, old: map[string]bool{}}
	for _, id := range ids {
		files, err := pluginfiles.Open(t.TempDir(), 1<<20, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		s.all[id] = &mirror.Mirror{
			Files: files, State: state.New(), Logger: hclog.NewNullLogger(),
			Others: func() ([]string, error) {
				return slices.DeleteFunc(slices.Clone(ids), func(x string) bool { return x == id }), nil
			},
			Part: func(_ context.Context, server, digest string, offset int64) ([]byte, error) {
				if s.away[server] {
					return nil, errdefs.Unavailablef("%s does not answer", server)
				}
				return s.all[server].Own(digest, offset)
			},
			Keep: func(ctx context.Context, server, digest string) error {
				switch {
				case s.away[server]:
					return errdefs.Unavailablef("%s does not answer", server)
				case s.old[server]:
					return errdefs.Unimplementedf("%s does not know this call", server)
				}
				return s.all[server].Take(ctx, id, digest)
			},
		}
	}
	return s
}

// have returns how many servers have a file.
func (s *servers) have(digest string) (n int) {
	for _, m := range s.all {
		if _, err := m.Stat(digest); err == nil {
			n++
		}
	}
	return n
}

func TestAnUploadIsAcknowledgedWhenMoreThanHalfOfTheServersHaveTheFile(t *testing.T) {
	five := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		ids, away, old []string
		have           int // at least
		says           string
	}{
		{five[:1], nil, nil, 1, ""},
		{five[:3], nil, nil, 2, ""},
		{five[:3], []string{"c"}, nil, 2, ""},
		{five[:3], []string{"b", "c"}, nil, 1, "1 of 3 servers have the plugin file"},
		{five[:3], nil, []string{"b", "c"}, 1, ""},
		{five[:3], []string{"b"}, []string{"c"}, 1, "1 of 2 servers"},
		{five, []string{"d", "e"}, nil, 3, ""},
		{five, []string{"c", "d", "e"}, nil, 2, "2 of 5 servers"},
	} {
		t.Run(fmt.Sprint(c.ids, c.away, c.old), func(t *testing.T) {
			s := newServers(t, c.ids...)
			for _, id := range c.away {
				s.away[id] = true
			}
			for _, id := range c.old {
				s.old[id] = true
			}
			text := []byte(strings.Repeat("a plugin", 20_000))
			sum := sha256.Sum256(text)
			digest := "sha256:" + hex.EncodeToString(sum[:])
			f, err := s.all["a"].Put(t.Context(), digest, bytes.NewReader(text))
			if c.says == "" && err != nil || c.says != "" && (!errdefs.IsUnavailable(err) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("answer %v", err)
			}
			if got := s.have(digest); got < c.have || f.Size != int64(len(text)) {
				t.Errorf("%d servers have the file, want %d; %+v", got, c.have, f)
			}
			for id, m := range s.all { // a registration may come to any server that answers
				if err := m.Have(t.Context(), digest); !s.away[id] && err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		})
	}
}

func TestAServerWithoutADirectoryRefusesFiles(t *testing.T) {
	m := &mirror.Mirror{}
	if _, err := m.Put(t.Context(), "sha256:00", nil); !errdefs.IsFailedPrecondition(err) {
		t.Error(err)
	}
	if err := m.Have(t.Context(), "sha256:00"); !errdefs.IsFailedPrecondition(err) {
		t.Error(err)
	}
}
