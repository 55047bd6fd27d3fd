// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverqemu_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/sdk/errdefs"
)

func (n *node) write(name string, body []byte) {
	n.t.Helper()
	if err := os.WriteFile(filepath.Join(n.dir, "web", name), body, 0o644); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) link(to, name string) {
	n.t.Helper()
	if err := os.Symlink(to, filepath.Join(n.dir, "web", name)); err != nil {
		n.t.Fatal(err)
	}
}

// outside returns a raw image that no task may use.
func (n *node) outside() string {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "outside.img")
	if err := os.WriteFile(path, make([]byte, 1<<20), 0o644); err != nil {
		n.t.Fatal(err)
	}
	return path
}

func (n *node) image(path string) *node {
	n.t.Helper()
	task := n.task(map[string]any{"image_path": path})
	n.run(task)
	n.destroy(task)
	return n
}

func (n *node) noImage(path string, class errdefs.Class, why string) {
	n.t.Helper()
	n.refused(n.task(map[string]any{"image_path": path}), class, why)
}

func TestAnImageOutsideTheAllowedPathsIsRefused(t *testing.T) {
	n := newNode(t, nil)
	outside := n.outside()
	n.noImage(outside, errdefs.PermissionDenied, "image_paths")
	n.noImage("../../../../../../../../.."+outside, errdefs.PermissionDenied, "image_paths")
	n.noImage("/nowhere/at/all.img", errdefs.PermissionDenied, "image_paths") // the error does not reveal whether it exists
	n.link(outside, "local/link.img")
	n.noImage("local/link.img", errdefs.PermissionDenied, outside)
	n.link(filepath.Dir(outside), "local/dir")
	n.noImage("local/dir/outside.img", errdefs.PermissionDenied, outside)
	if body, err := os.ReadFile(outside); err != nil || len(body) != 1<<20 {
		t.Errorf("the image was touched: %d bytes, %v", len(body), err)
	}
}

func TestAnImageInAnAllowedPathIsUsed(t *testing.T) {
	n := newNode(t, nil)
	outside := n.outside()
	n.configure(map[string]any{"image_paths": []any{"/nowhere", filepath.Dir(outside)}})
	n.link(outside, "local/link.img")
	n.image(outside).image("local/link.img")
	n.configure(map[string]any{"image_paths": []any{outside}})
	n.image(outside)
	n.noImage(outside+"x", errdefs.PermissionDenied, "image_paths")
	n.disk("local/own.img", 1<<20)
	n.image("local/own.img").image(filepath.Join(n.dir, "web/local/own.img"))
}

func TestABackingFileOutsideIsRefusedHoweverItIsNamed(t *testing.T) {
	n := newNode(t, nil)
	outside, local := n.outside(), filepath.Join(n.dir, "web", "local")
	n.disk("local/base.img", 1<<20)
	for name, backing := range map[string][2]string{
		"absolute":   {outside, "raw"},
		"relative":   {strings.Repeat("../", 30) + outside[1:], "raw"},
		"protocol":   {"nbd://127.0.0.1:1/x", "raw"},
		"json":       {`json:{"driver":"file","filename":"` + outside + `"}`, "raw"},
		"file colon": {"file:" + outside, "raw"},
	} {
		path := filepath.Join(local, "bad.qcow2")
		n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", backing[0], "-F", backing[1], path, "1M")
		task := n.task(map[string]any{"image_path": "local/bad.qcow2"})
		if _, _, err := n.d.StartTask(t.Context(), task); !errdefs.IsPermissionDenied(err) && !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "backing file") {
			t.Errorf("%s: class %s, %v", name, errdefs.ClassOf(err), err)
		}
	}
	// Through a second image, and through a link.
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", outside, "-F", "raw", filepath.Join(local, "middle.qcow2"), "1M")
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", "middle.qcow2", "-F", "qcow2", filepath.Join(local, "top.qcow2"), "1M")
	n.noImage("local/top.qcow2", errdefs.PermissionDenied, outside)
	n.link(outside, "local/innocent.img")
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", "innocent.img", "-F", "raw", filepath.Join(local, "linked.qcow2"), "1M")
	n.noImage("local/linked.qcow2", errdefs.PermissionDenied, outside)
	// An image that is its own backing file.
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", "self.qcow2", "-F", "qcow2", filepath.Join(local, "self.qcow2"), "1M")
	n.noImage("local/self.qcow2", errdefs.InvalidArgument, "backing files")
	// Allowed backing files, relative to the image and not to QEMU's working directory.
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", "base.img", "-F", "raw", filepath.Join(local, "good.qcow2"), "1M")
	n.image("local/good.qcow2")
	n.configure(map[string]any{"image_paths": []any{filepath.Dir(outside)}})
	n.image("local/middle.qcow2").image("local/top.qcow2")
}

// A guest may write anything to its raw disk, including a header that names a file
// of the machine. Either way of opening the disk afterwards is safe.
func TestAHeaderThatAGuestWroteIntoItsRawDiskOpensNothing(t *testing.T) {
	n := newNode(t, nil)
	outside := n.outside()
	n.qemuImg("create", "-q", "-f", "qcow2", "-u", "-b", outside, "-F", "raw", filepath.Join(n.dir, "web/local/disk.img"), "1M")
	n.noImage("local/disk.img", errdefs.PermissionDenied, outside)
	n.disk("first.img", 1<<20)
	task := n.task(map[string]any{"image_path": "first.img", "args": []any{"-drive", "file=local/disk.img,format=raw,if=virtio"}})
	if err := os.Truncate(filepath.Join(n.dir, "web/local/disk.img"), 1<<20); err != nil {
		t.Fatal(err)
	}
	n.run(task) // as a raw image it is an ordinary disk
	n.destroy(task)
}

func TestWhatIsNoImageIsRefusedAndSaidWhatItIs(t *testing.T) {
	n := newNode(t, nil)
	local := filepath.Join(n.dir, "web", "local")
	n.noImage("local/missing.img", errdefs.InvalidArgument, "no such file")
	if _, _, err := n.d.StartTask(t.Context(), n.task(map[string]any{"image_path": "local/missing.img"})); errdefs.ReasonOf(err) != "image_not_found" || errdefs.DetailsOf(err)["image"] == "" {
		t.Errorf("reason %q, details %v", errdefs.ReasonOf(err), errdefs.DetailsOf(err))
	}
	n.noImage("local", errdefs.InvalidArgument, "is a directory")
	n.write("local/page.img", []byte("<html>404 not found</html>"))
	n.noImage("local/page.img", errdefs.InvalidArgument, "is not a disk image")
	n.write("local/empty.img", nil)
	n.noImage("local/empty.img", errdefs.InvalidArgument, "is not a disk image: the file is empty")
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	n.write("local/packed.img", packed.Bytes())
	n.noImage("local/packed.img", errdefs.InvalidArgument, "compressed by gzip")
	n.write("local/cut.qcow2", []byte("QFI\xfb\x00\x00\x00\x03"))
	n.noImage("local/cut.qcow2", errdefs.InvalidArgument, "truncated")
	n.qemuImg("create", "-q", "-f", "qcow2", "-o", "data_file="+filepath.Join(local, "data.raw"), filepath.Join(local, "external.qcow2"), "1M")
	n.noImage("local/external.qcow2", errdefs.InvalidArgument, "data_file")
	n.qemuImg("create", "-q", "-f", "vmdk", filepath.Join(local, "disk.vmdk"), "1M")
	n.noImage("local/disk.vmdk", errdefs.InvalidArgument, "qemu-img convert")
	n.qemuImg("create", "-q", "-f", "vdi", filepath.Join(local, "disk.vdi"), "1M")
	n.qemuImg("create", "-q", "-f", "vhdx", filepath.Join(local, "disk.vhdx"), "8M")
	n.image("local/disk.vdi").image("local/disk.vhdx")
	n.noImage("", errdefs.InvalidArgument, "image_path")
}

func TestAnImageThatIsReplacedByALinkIsNotFollowed(t *testing.T) {
	n := newNode(t, nil)
	outside := n.outside()
	n.disk("local/disk.img", 1<<20)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // another task of the alloc, which tries to win the race
		defer close(done)
		path := filepath.Join(n.dir, "web", "local", "disk.img")
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Symlink(outside, path+".link") // one of the two may still exist
			_ = os.WriteFile(path+".file", make([]byte, 1<<20), 0o644)
			if i%2 == 0 {
				_ = os.Rename(path+".link", path)
			} else {
				_ = os.Rename(path+".file", path)
			}
		}
	}()
	started, refused := 0, 0
	for deadline := time.Now().Add(time.Minute); (started < 5 || refused < 5) && time.Now().Before(deadline); {
		task := n.task(map[string]any{"image_path": "local/disk.img"})
		if _, _, err := n.d.StartTask(t.Context(), task); err != nil {
			refused++
			continue
		}
		started++
		for _, f := range n.openFiles(task) {
			if f == outside {
				t.Errorf("the machine has %s open", f)
			}
		}
		n.destroy(task)
	}
	close(stop)
	<-done
	if started == 0 || refused == 0 {
		t.Errorf("%d machines were started and %d refused: the race was not run", started, refused)
	}
}
