// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package bucket_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/drover-project/drover/cmd/drover-s3/bucket"
	"github.com/drover-project/drover/core/backup/wire"
)

// store starts a store with the bucket "bkt".
func store(t *testing.T) wire.Bucket {
	t.Helper()
	return storeBehind(t, func(h http.Handler) http.Handler { return h })
}

// storeBehind is store, with something in front of it.
func storeBehind(t *testing.T, front func(http.Handler) http.Handler) wire.Bucket {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket("bkt"); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(front(gofakes3.New(backend).Server()))
	t.Cleanup(srv.Close)
	return wire.Bucket{Endpoint: srv.URL, Region: "us-east-1", Name: "bkt", KeyPrefix: "in", AccessKey: "k", SecretKey: "s", PathStyle: true}
}

func file(t *testing.T, size int) (path, sum string) {
	t.Helper()
	text := []byte(strings.Repeat("snapshot", size/8))
	path = filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	h := sha256.Sum256(text)
	return path, hex.EncodeToString(h[:])
}

func do(t *testing.T, r wire.Request) wire.Answer {
	t.Helper()
	a := bucket.Do(t.Context(), r)
	if a.Error != "" {
		t.Fatal(a.Error)
	}
	return a
}

func TestWhatIsStoredIsReadAgainListedAndRemoved(t *testing.T) {
	for _, size := range []int{64, 40 << 20} { // the larger one is stored in parts
		b := store(t)
		path, sum := file(t, size)
		if got := do(t, wire.Request{Op: wire.Put, Bucket: b, Name: "d-1.snap", File: path}).Sum; got != sum {
			t.Errorf("%d bytes: the sum is %s, not %s", size, got, sum)
		}
		elsewhere := b
		elsewhere.KeyPrefix = "in2"
		do(t, wire.Request{Op: wire.Put, Bucket: elsewhere, Name: "d-2.snap", File: path})
		got := do(t, wire.Request{Op: wire.List, Bucket: b, Name: "d-"}).Objects
		if len(got) != 1 || got[0] != (wire.Object{Name: "d-1.snap", Size: int64(size)}) {
			t.Errorf("%d bytes: listed are %v", size, got)
		}
		do(t, wire.Request{Op: wire.Delete, Bucket: b, Name: "d-1.snap"})
		do(t, wire.Request{Op: wire.Delete, Bucket: b, Name: "d-1.snap"}) // once more
		if got := do(t, wire.Request{Op: wire.List, Bucket: b, Name: "d-"}).Objects; len(got) != 0 {
			t.Errorf("listed after the removal: %v", got)
		}
	}
}

func TestWhatCannotBeReadAgainIsNotKept(t *testing.T) {
	b := storeBehind(t, func(h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".snap") { // credentials without s3:GetObject
				w.WriteHeader(http.StatusForbidden)
				_, _ = w.Write([]byte("<Error><Code>AccessDenied</Code><Message>no</Message></Error>"))
				return
			}
			h.ServeHTTP(w, r)
		})
	})
	path, _ := file(t, 64)
	got := bucket.Do(t.Context(), wire.Request{Op: wire.Put, Bucket: b, Name: "d-1.snap", File: path}).Error
	if !strings.Contains(got, "s3:GetObject") || !strings.HasSuffix(got, "it was removed again") {
		t.Errorf("it says %q", got)
	}
	if left := do(t, wire.Request{Op: wire.List, Bucket: b, Name: "d-"}).Objects; len(left) != 0 {
		t.Errorf("%v count as stored", left)
	}
}

func TestErrorsNameTheCauseAndTheCure(t *testing.T) {
	b := store(t)
	absent := b
	absent.Name = "absent"
	odd := b
	odd.Endpoint = "ftp://h"
	for name, c := range map[string]struct {
		r    wire.Request
		text string
	}{
		"no bucket":     {wire.Request{Op: wire.List, Bucket: absent, Name: "d-"}, `no bucket "absent"`},
		"no endpoint":   {wire.Request{Op: wire.List, Bucket: odd}, "give HOST:PORT"},
		"a new request": {wire.Request{Op: "copy", Bucket: b}, "another release"},
		"no file":       {wire.Request{Op: wire.Put, Bucket: b, Name: "x", File: "/absent"}, "no such file"},
	} {
		if got := bucket.Do(t.Context(), c.r).Error; !strings.Contains(got, c.text) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
