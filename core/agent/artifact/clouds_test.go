// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package artifact_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// bucket answers as an S3-compatible store with one bucket does, to requests
// that are signed with the key "AKIDTEST".
func bucket(objects map[string]string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=AKIDTEST/") {
			http.Error(w, "<Error><Code>AccessDenied</Code></Error>", http.StatusForbidden)
			return
		}
		key := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/bucket"), "/")
		if r.URL.Query().Get("list-type") == "2" {
			_, _ = fmt.Fprint(w, `<?xml version="1.0"?><ListBucketResult><IsTruncated>false</IsTruncated>`)
			for k, v := range objects {
				if strings.HasPrefix(k, r.URL.Query().Get("prefix")) {
					_, _ = fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", k, len(v))
				}
			}
			_, _ = fmt.Fprint(w, "</ListBucketResult>")
			return
		}
		body, ok := objects[key]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		_, _ = fmt.Fprint(w, body)
	})
}

func TestObjectsOfAnS3StoreAreFetched(t *testing.T) {
	s := httptest.NewServer(bucket(map[string]string{"app/one": "1", "app/sub/two": "2"}))
	defer s.Close()
	keys := map[string]string{"aws_access_key_id": "AKIDTEST", "aws_access_key_secret": "topsecretkey", "region": "eu-north-1"}
	p := newPlace(t)
	p.mustFetch(&model.TaskArtifact{GetterSource: "s3::" + s.URL + "/bucket/app/one", GetterOptions: keys})
	p.wants("web/local/one")
	p.mustFetch(&model.TaskArtifact{GetterSource: "s3::" + s.URL + "/bucket/app", GetterOptions: keys, RelativeDest: "local/all"})
	p.wants("web/local/all/one", "web/local/all/sub/two", "web/local/one")
	err := p.fetch(&model.TaskArtifact{GetterSource: "s3::" + s.URL + "/bucket/none", GetterOptions: keys, RelativeDest: "local/none"})
	if !errdefs.IsUnavailable(err) || strings.Contains(err.Error(), "topsecretkey") {
		t.Errorf("an object that is not there: got %v", err)
	}
	p.wants("web/local/all/one", "web/local/all/sub/two", "web/local/one")
}

func TestAFetchWithoutCredentialsNeverAsksTheMetadataService(t *testing.T) {
	store := httptest.NewServer(bucket(map[string]string{"app/one": "1"}))
	defer store.Close()
	var asked atomic.Int64
	metadata := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		http.NotFound(w, nil)
	}))
	defer metadata.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata.URL)
	p := newPlace(t)
	p.cfg.Environment = []string{"AWS_EC2_METADATA_SERVICE_ENDPOINT"}
	for _, source := range []string{"s3::" + store.URL + "/bucket/app/one", "gcs::https://www.googleapis.com/storage/v1/bucket/app/one"} {
		if err := p.fetch(&model.TaskArtifact{GetterSource: source}); err == nil {
			t.Errorf("%s was fetched without credentials", source)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the metadata service was asked %d times", n)
	}
}

func TestObjectsOfGoogleStorageAreFetched(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/o"):
			_ = json.NewEncoder(w).Encode(map[string]any{"kind": "storage#objects", "items": []map[string]any{{"name": "app/one", "bucket": "bucket"}}})
		case strings.HasSuffix(r.URL.Path, "/app/one"):
			_, _ = fmt.Fprint(w, "1")
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(s.URL, "http://"))
	p := newPlace(t)
	p.cfg.Environment = []string{"STORAGE_EMULATOR_HOST"}
	p.mustFetch(&model.TaskArtifact{GetterSource: "gcs::https://www.googleapis.com/storage/v1/bucket/app/one"})
	p.wants("web/local/one")
	p.wantText("web/local/one", "1")
}
