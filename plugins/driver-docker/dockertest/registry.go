// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dockertest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Registry is a local image registry.
type Registry struct {
	server *httptest.Server

	mu        sync.Mutex
	manifests map[string][]byte // by NAME:TAG and NAME@DIGEST
	blobs     map[string][]byte // by digest
	user      string
	password  string
	hold      chan struct{} // while it is not nil, layers are sent only after it is closed
	held      int64         // bytes of a layer that are sent before
	pulls     int           // number of manifest requests by tag
}

const manifestType = "application/vnd.docker.distribution.manifest.v2+json"

// NewRegistry starts a registry that is closed at the end of the test.
func NewRegistry(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{manifests: map[string][]byte{}, blobs: map[string][]byte{}}
	r.server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.Release()
		r.server.CloseClientConnections()
		r.server.Close()
	})
	return r
}

// Host returns the host and port, with which the registry's image names begin.
func (r *Registry) Host() string { return strings.TrimPrefix(r.server.URL, "http://") }

// Push stores an image and returns its full name.
func (r *Registry) Push(t testing.TB, name, tag string, image Image) string {
	t.Helper()
	layer, err := image.compressed()
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": manifestType,
		"config": map[string]any{"mediaType": "application/vnd.docker.container.image.v1+json", "size": len(image.config), "digest": digest(image.config)},
		"layers": []map[string]any{{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "size": len(layer), "digest": digest(layer)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.blobs[digest(image.config)], r.blobs[digest(layer)] = image.config, layer
	r.manifests[name+":"+tag], r.manifests[name+":"+digest(manifest)] = manifest, manifest
	return r.Host() + "/" + name + ":" + tag
}

// RequireLogin makes the registry reject other credentials.
func (r *Registry) RequireLogin(user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.user, r.password = user, password
}

// Hold delays layers until Release is called.
func (r *Registry) Hold() { r.HoldAfter(0) }

// HoldAfter does what Hold does, but only after the given number of bytes of each layer.
func (r *Registry) HoldAfter(bytes int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hold, r.held = make(chan struct{}), bytes
}

// Release sends the delayed layers.
func (r *Registry) Release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hold != nil {
		close(r.hold)
		r.hold = nil
	}
}

// Pulls returns how often a manifest was requested.
func (r *Registry) Pulls() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls
}

// ServeHTTP implements the pull part of the registry protocol.
func (r *Registry) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	user, password, hold, held := r.user, r.password, r.hold, r.held
	r.mu.Unlock()
	if u, p, ok := q.BasicAuth(); user != "" && (!ok || u != user || p != password) {
		w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
		refuse(w, http.StatusUnauthorized, `{"errors":[{"code":"UNAUTHORIZED","message":"log in"}]}`)
		return
	}
	path := strings.TrimPrefix(q.URL.Path, "/v2/")
	if path == "" {
		return
	}
	name, rest, ok := cutLast(path, "/manifests/")
	if ok {
		r.manifest(w, q, name, rest)
		return
	}
	_, rest, ok = cutLast(path, "/blobs/")
	r.mu.Lock()
	blob, found := r.blobs[rest]
	r.mu.Unlock()
	if !ok || !found {
		refuse(w, http.StatusNotFound, `{"errors":[{"code":"BLOB_UNKNOWN","message":"no such blob"}]}`)
		return
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(blob)))
	w.Header().Set("Docker-Content-Digest", rest)
	w.Header().Set("Content-Type", "application/octet-stream")
	if hold != nil && len(blob) > 4096 {
		if held = min(held, int64(len(blob))); held > 0 {
			if _, err := w.Write(blob[:held]); err != nil {
				return
			}
			if err := http.NewResponseController(w).Flush(); err != nil {
				return
			}
			blob = blob[held:]
		}
		select {
		case <-hold:
		case <-q.Context().Done():
			return
		}
	}
	_, _ = w.Write(blob) // an error means that the client is gone
}

func (r *Registry) manifest(w http.ResponseWriter, q *http.Request, name, tag string) {
	r.mu.Lock()
	body, ok := r.manifests[name+":"+tag]
	if ok && q.Method == http.MethodGet {
		r.pulls++
	}
	r.mu.Unlock()
	if !ok {
		refuse(w, http.StatusNotFound, `{"errors":[{"code":"MANIFEST_UNKNOWN","message":"manifest unknown","detail":{"Tag":"?"}}]}`)
		return
	}
	w.Header().Set("Content-Type", manifestType)
	w.Header().Set("Docker-Content-Digest", digest(body))
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if q.Method != http.MethodHead {
		_, _ = w.Write(body) // an error means that the client is gone
	}
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body)) // an error means that the client is gone
}
