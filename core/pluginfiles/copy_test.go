// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package pluginfiles_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"

	"github.com/drover-project/drover/core/pluginfiles"
	"github.com/drover-project/drover/sdk/errdefs"
)

func openStore(t *testing.T) *pluginfiles.Store {
	t.Helper()
	s, err := pluginfiles.Open(t.TempDir(), 8<<20, 16<<20)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// source reads the files of another store and counts its calls.
func source(s *pluginfiles.Store, calls *int) pluginfiles.Source {
	return func(_ context.Context, digest string, offset int64) ([]byte, error) {
		*calls++
		return s.Part(digest, offset)
	}
}

func TestAFileIsCopiedInPartsFromTheFirstServerThatHasIt(t *testing.T) {
	body := bytes.Repeat([]byte("plugin"), 400_000) // 2.4 MB
	digest := digestOf(string(body))
	has, hasNot, to := openStore(t), openStore(t), openStore(t)
	if _, err := has.Put(digest, bytes.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	calls := 0
	sources := []pluginfiles.Source{source(hasNot, &calls), source(has, &calls), source(has, &calls)}
	if err := to.Copy(t.Context(), digest, sources); err != nil || calls != 1+4 { // three parts and the end
		t.Fatalf("%d calls, %v", calls, err)
	}
	f, err := to.Open(digest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got, err := io.ReadAll(f); err != nil || !bytes.Equal(got, body) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := to.Copy(t.Context(), digest, sources); err != nil || calls != 5 {
		t.Errorf("a file that is there was copied again: %d calls, %v", calls, err)
	}
}

func TestAFileThatWasCutOrChangedOnTheWayIsNotStored(t *testing.T) {
	body := bytes.Repeat([]byte("x"), pluginfiles.PartSize+1)
	digest := digestOf(string(body))
	broken := errors.New("the connection broke")
	for name, read := range map[string]pluginfiles.Source{
		"changed": func(_ context.Context, _ string, offset int64) ([]byte, error) {
			if offset > 0 {
				return nil, nil
			}
			return []byte("other"), nil
		},
		"cut": func(_ context.Context, _ string, offset int64) ([]byte, error) {
			if offset > 0 {
				return nil, broken
			}
			return body[:pluginfiles.PartSize], nil
		},
		"endless": func(context.Context, string, int64) ([]byte, error) { return body, nil },
	} {
		to := openStore(t)
		if err := to.Copy(t.Context(), digest, []pluginfiles.Source{read}); err == nil || errdefs.IsNotFound(err) {
			t.Errorf("%s: %v", name, err)
		}
		if files, err := to.List(); err != nil || len(files) > 0 {
			t.Errorf("%s: %v, %v", name, files, err)
		}
	}
}

func TestAFileThatNoServerHasIsNotFound(t *testing.T) {
	calls := 0
	err := openStore(t).Copy(t.Context(), digestOf(""), []pluginfiles.Source{source(openStore(t), &calls)})
	if !errdefs.IsNotFound(err) {
		t.Errorf("%v", err)
	}
	if err := openStore(t).Copy(t.Context(), digestOf(""), nil); !errdefs.IsNotFound(err) {
		t.Errorf("without other servers: %v", err)
	}
}
