// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/drover-project/drover/core/consensus"
	"github.com/drover-project/drover/sdk/errdefs"
)

// archiveOf saves an archive of a node that knows the words and returns its bytes.
func archiveOf(t *testing.T, dir string, said ...string) []byte {
	t.Helper()
	n := openNode(t, consensus.Config{NodeID: "a", Machine: &words{}})
	defer closeNode(t, n)
	eventually(t, "the server leads", n.IsLeader)
	for _, w := range said {
		propose(t, n, w)
	}
	a, err := n.SaveArchive(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(a)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(body)
	if want := "sha-256=" + base64.StdEncoding.EncodeToString(sum[:]); a.Digest != want || a.Size != int64(len(body)) {
		t.Errorf("digest %s, size %d of %d bytes; want %s", a.Digest, a.Size, len(body), want)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	return body
}

func readable(r io.Reader) error { return (&words{}).Restore(r) }

func empty(t *testing.T, dir string) {
	t.Helper()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestAnArchiveRestoresTheStateOnAnotherCluster(t *testing.T) {
	dir := t.TempDir()
	body := archiveOf(t, dir, "one", "two")
	m := &words{}
	n := openNode(t, consensus.Config{NodeID: "b", Machine: m})
	defer closeNode(t, n)
	eventually(t, "the server leads", n.IsLeader)
	propose(t, n, "other")
	if err := n.RestoreArchive(t.Context(), dir, bytes.NewReader(body), readable); err != nil {
		t.Fatal(err)
	}
	if got := m.all(); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("restored %q", got)
	}
	propose(t, n, "three")
	if got := m.all(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("after a write: %q", got)
	}
	empty(t, dir)
}

func TestASecondArchiveOfTheSameStateCanBeTaken(t *testing.T) {
	n := openNode(t, consensus.Config{NodeID: "a", Machine: &words{}})
	defer closeNode(t, n)
	eventually(t, "the server leads", n.IsLeader)
	propose(t, n, "one")
	for range 2 {
		a, err := n.SaveArchive(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := consensus.InspectArchive(a); err != nil {
			t.Error(err)
		}
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
}

// packed returns a compressed tar of empty files.
func packed(t *testing.T, names ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	archive := tar.NewWriter(zip)
	for _, name := range names {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: 2}); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), zip.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestWhatIsNoArchiveIsSaid(t *testing.T) {
	var other bytes.Buffer
	zip := gzip.NewWriter(&other)
	if _, err := zip.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	if err := zip.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		body []byte
		says string
	}{
		{nil, "is empty"}, {[]byte("hello, world"), "no compressed tar"}, {other.Bytes(), "something else that was compressed"},
		{packed(t), "lacks the file meta.json"}, {packed(t, "meta.json", "state.bin"), "SHA256SUMS"}, {packed(t, "meta.json", "SHA256SUMS"), "lacks the file state.bin"},
		{packed(t, "meta.json", "state.bin", "SHA256SUMS"), "the checksum of meta.json differs"},
	} {
		if _, err := consensus.InspectArchive(bytes.NewReader(c.body)); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("want %q: %v", c.says, err)
		}
	}
}

func TestADamagedArchiveRestoresNothing(t *testing.T) {
	dir := t.TempDir()
	body := archiveOf(t, dir, "one", "two")
	m := &words{}
	n := openNode(t, consensus.Config{NodeID: "b", Machine: m})
	defer closeNode(t, n)
	eventually(t, "the server leads", n.IsLeader)
	propose(t, n, "kept")
	flipped := slices.Clone(body)
	flipped[len(body)/2] ^= 0x40
	for name, bad := range map[string][]byte{
		"empty": nil, "text": []byte("hello"), "cut": body[:len(body)/2], "without its end": body[:len(body)-20], "without its last byte": body[:len(body)-1],
		"two of them": slices.Concat(body, body), "one bit flipped": flipped,
	} {
		if err := n.RestoreArchive(t.Context(), dir, bytes.NewReader(bad), readable); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "nothing was restored") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := consensus.InspectArchive(bytes.NewReader(bad)); !errdefs.IsInvalidArgument(err) || strings.Contains(err.Error(), "restored") { // nobody wanted to
			t.Errorf("%s, inspected: %v", name, err)
		}
	}
	if got := m.all(); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("the state is now %q", got)
	}
	empty(t, dir)
}
