// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package dockertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// Image is a small image that contains busybox.
type Image struct {
	config []byte
	layer  []byte // tar
}

// busyboxPaths are the paths of a statically linked busybox on Debian and other
// distributions.
var busyboxPaths = []string{"/bin/busybox", "/usr/bin/busybox", "/bin/busybox-static"}

// NewImage builds an image, whose program is a shell. Images with different markers have
// different digests.
func NewImage(marker string) (Image, error) { return NewImageOf(marker, "/bin/sh") }

// NewImageOf builds an image whose program is the given one, with its arguments.
func NewImageOf(marker string, program ...string) (Image, error) {
	for _, path := range busyboxPaths {
		body, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if bytes.Contains(body, []byte("/ld-linux")) {
			continue // it is linked dynamically
		}
		return newImage(path, body, marker, program)
	}
	return Image{}, fmt.Errorf("there is no static busybox in %v; install the package busybox-static", busyboxPaths)
}

func newImage(path string, busybox []byte, marker string, program []string) (Image, error) {
	out, err := exec.Command(path, "--list").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list the applets of %s: %w", path, err)
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	add := func(h tar.Header, body []byte) {
		h.Size, h.ModTime = int64(len(body)), time.Unix(0, 0)
		if err == nil {
			err = w.WriteHeader(&h)
		}
		if err == nil {
			_, err = w.Write(body)
		}
	}
	for _, dir := range []string{"bin/", "etc/", "tmp/", "var/"} {
		add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "bin/busybox", Mode: 0o755}, busybox)
	for _, applet := range strings.Fields(string(out)) {
		if applet != "busybox" {
			add(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox", Mode: 0o777}, nil)
		}
	}
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, []byte("root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/group", Mode: 0o644}, []byte("root:x:0:\nnogroup:x:65534:\n"))
	add(tar.Header{Typeflag: tar.TypeReg, Name: "etc/marker", Mode: 0o644}, []byte(marker))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return Image{}, fmt.Errorf("make the image: %w", err)
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux", "created": "1970-01-01T00:00:00Z",
		"config": map[string]any{"Cmd": program, "Env": []string{"PATH=/bin", "FROM_IMAGE=" + marker}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{digest(layer.Bytes())}},
	})
	if err != nil {
		return Image{}, fmt.Errorf("make the image: %w", err)
	}
	return Image{config: config, layer: layer.Bytes()}, nil
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// ID returns the id that the image has in a daemon.
func (i Image) ID() string { return digest(i.config) }

// Archive returns the image under a name, in the format of docker save.
func (i Image) Archive(name string) ([]byte, error) {
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range []struct {
		name string
		body []byte
	}{{"config.json", i.config}, {"layer.tar", i.layer}, {"manifest.json", manifest}} {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.body))}); err != nil {
			return nil, fmt.Errorf("make the archive: %w", err)
		}
		if _, err := w.Write(f.body); err != nil {
			return nil, fmt.Errorf("make the archive: %w", err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("make the archive: %w", err)
	}
	return out.Bytes(), nil
}

func (i Image) compressed() ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write(i.layer); err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress the layer: %w", err)
	}
	return out.Bytes(), nil
}
