// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package consensus

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

// The files of an archive, a gzipped tar that `tar xzf` and sha256sum can read.
const (
	archiveMeta  = "meta.json"
	archiveState = "state.bin"
	archiveSums  = "SHA256SUMS"
)

// Limits of the contents of an archive.
const (
	maxArchiveMeta  = 1 << 20
	maxArchiveState = 64 << 30
)

// Archive is a snapshot in a temporary file. Close removes the file.
type Archive struct {
	*os.File
	Info   SnapshotInfo
	Digest string // "sha-256=BASE64" of the file, in the format of the Digest header
	Size   int64
}

// Close closes and removes the file.
func (a *Archive) Close() error { return errors.Join(a.File.Close(), os.Remove(a.Name())) }

// SaveArchive writes a snapshot of the current state to an archive in dir.
func (n *Node) SaveArchive(ctx context.Context, dir string) (_ *Archive, err error) {
	info, state, err := n.TakeSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	defer state.Close()
	f, err := os.CreateTemp(dir, "snapshot-*.tgz")
	if err != nil {
		return nil, fmt.Errorf("make the file of the snapshot: %w", err)
	}
	a := &Archive{File: f, Info: info}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	sum := sha256.New()
	out := bufio.NewWriterSize(io.MultiWriter(f, sum), 256<<10)
	if err := writeArchive(ctx, out, info, state); err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	if err := out.Flush(); err != nil {
		return nil, fmt.Errorf("write the snapshot: %w", err)
	}
	a.Digest = "sha-256=" + base64.StdEncoding.EncodeToString(sum.Sum(nil))
	if a.Size, err = f.Seek(0, io.SeekCurrent); err != nil {
		return nil, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return a, err
}

func writeArchive(ctx context.Context, w io.Writer, info SnapshotInfo, state io.Reader) error {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)
	meta, err := json.Marshal(info)
	if err != nil {
		return err
	}
	metaSum, stateSum := sha256.New(), sha256.New()
	if err := addFile(out, archiveMeta, int64(len(meta)), strings.NewReader(string(meta)), metaSum); err != nil {
		return err
	}
	if err := addFile(out, archiveState, info.Size, &cancelReader{ctx, state}, stateSum); err != nil {
		return err
	}
	sums := hex.EncodeToString(metaSum.Sum(nil)) + "  " + archiveMeta + "\n" + hex.EncodeToString(stateSum.Sum(nil)) + "  " + archiveState + "\n"
	if err := addFile(out, archiveSums, int64(len(sums)), strings.NewReader(sums), sha256.New()); err != nil {
		return err
	}
	return errors.Join(out.Close(), zip.Close())
}

func addFile(out *tar.Writer, name string, size int64, r io.Reader, sum hash.Hash) error {
	if err := out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: size, ModTime: time.Now()}); err != nil {
		return err
	}
	_, err := io.Copy(io.MultiWriter(out, sum), r)
	return err
}

// cancelReader fails when its context ends.
type cancelReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// RestoreArchive replaces the state of the whole cluster by an archive. Before it changes
// anything, it stores the whole archive in dir, verifies its checksums and calls check
// with the state in it: raft panics if the state machine cannot restore a snapshot.
func (n *Node) RestoreArchive(ctx context.Context, dir string, r io.Reader, check func(state io.Reader) error) error {
	f, err := os.CreateTemp(dir, "restore-*.bin")
	if err != nil {
		return fmt.Errorf("make the file of the snapshot: %w", err)
	}
	defer func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) }() // a file that could not be removed does no harm
	info, err := readArchive(&cancelReader{ctx, r}, f)
	if err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	rewind := func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return fmt.Errorf("read the snapshot again: %w", err)
		}
		return nil
	}
	if err := rewind(); err != nil {
		return err
	}
	if err := check(&cancelReader{ctx, f}); err != nil {
		return fmt.Errorf("nothing was restored: %w", err)
	}
	if err := rewind(); err != nil {
		return err
	}
	return n.RestoreSnapshot(ctx, info, f)
}

// readArchive writes the state in an archive to w and returns its metadata.
func readArchive(r io.Reader, w io.Writer) (info SnapshotInfo, err error) {
	zip, err := gzip.NewReader(bufio.NewReaderSize(r, 256<<10))
	if err != nil {
		return info, damaged(err)
	}
	in := tar.NewReader(zip)
	var meta, sums strings.Builder
	metaSum, stateSum := sha256.New(), sha256.New()
	size := int64(-1)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return info, damaged(err)
		}
		switch h.Name {
		case archiveMeta:
			_, err = io.Copy(io.MultiWriter(&meta, metaSum), io.LimitReader(in, maxArchiveMeta))
		case archiveState:
			size, err = io.Copy(io.MultiWriter(w, stateSum), io.LimitReader(in, maxArchiveState))
		case archiveSums:
			_, err = io.Copy(&sums, io.LimitReader(in, maxArchiveMeta))
		default:
			return info, damaged(fmt.Errorf("it holds the unknown file %q", h.Name))
		}
		if err != nil {
			return info, damaged(err)
		}
	}
	rest, err := io.ReadAll(io.LimitReader(zip, maxArchiveMeta)) // the padding of tar, and the checksum of gzip
	if err != nil {
		return info, damaged(err)
	}
	if len(bytes.Trim(rest, "\x00")) > 0 {
		return info, damaged(errors.New("something follows its end"))
	}
	if meta.Len() == 0 {
		return info, damaged(fmt.Errorf("it lacks the file %s", archiveMeta))
	}
	if err := json.Unmarshal([]byte(meta.String()), &info); err != nil {
		return info, damaged(fmt.Errorf("%s: %w", archiveMeta, err))
	}
	if size < 0 || sums.Len() == 0 {
		return info, damaged(fmt.Errorf("it lacks the file %s or %s", archiveState, archiveSums))
	}
	for _, file := range []struct {
		name string
		sum  hash.Hash
	}{{archiveMeta, metaSum}, {archiveState, stateSum}} {
		if !strings.Contains(sums.String(), hex.EncodeToString(file.sum.Sum(nil))+"  "+file.name+"\n") {
			return info, damaged(fmt.Errorf("the checksum of %s differs from the one in %s", file.name, archiveSums))
		}
	}
	if size != info.Size {
		return info, damaged(fmt.Errorf("%s has %d bytes, not %d", archiveState, size, info.Size))
	}
	return info, nil
}

func damaged(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the file is empty")
	case errors.Is(err, io.ErrUnexpectedEOF):
		err = errors.New("the file is cut off, or something else that was compressed")
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, tar.ErrHeader):
		err = fmt.Errorf("the file is no compressed tar archive: %w", err)
	}
	return errdefs.InvalidArgumentf("this is not a whole snapshot of Drover: %w", err)
}

// InspectArchive verifies an archive and returns its metadata.
func InspectArchive(r io.Reader) (SnapshotInfo, error) { return readArchive(r, io.Discard) }
