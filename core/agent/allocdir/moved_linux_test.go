// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agent/allocdir"
	"github.com/drover-project/drover/sdk/errdefs"
)

var web = []string{"web"}

// pair returns the directories of an alloc and of the one that replaces it.
func pair(t *testing.T) (from, to allocdir.Dir) {
	t.Helper()
	root := t.TempDir()
	from, to = allocdir.New(filepath.Join(root, "n1"), "a0"), allocdir.New(filepath.Join(root, "n2"), "a1")
	for _, d := range []allocdir.Dir{from, to} {
		if err := d.Build(); err != nil {
			t.Fatal(err)
		}
		if err := d.BuildTask("web"); err != nil {
			t.Fatal(err)
		}
	}
	return from, to
}

func do(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func sent(t *testing.T, from allocdir.Dir, owner allocdir.Owner) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	do(t, from.Send(&out, web, owner))
	return &out
}

var receipt = allocdir.Receipt{MostBytes: 1 << 20}

// tree describes all files beneath a folder.
func tree(t *testing.T, at string) string {
	t.Helper()
	var out strings.Builder
	do(t, filepath.WalkDir(at, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		rel, _ := filepath.Rel(at, name)
		fmt.Fprintf(&out, "%q %v %d:%d", rel, info.Mode(), st.Uid, st.Gid)
		switch {
		case info.Mode().IsRegular():
			body, err := os.ReadFile(name)
			do(t, err)
			fmt.Fprintf(&out, " %q %s links=%d", body, info.ModTime().UTC().Format(time.RFC3339Nano), st.Nlink)
		case info.Mode()&fs.ModeSymlink != 0:
			to, _ := os.Readlink(name)
			out.WriteString(" -> " + to)
		default:
			out.WriteString(" " + info.ModTime().UTC().Format(time.RFC3339Nano))
		}
		out.WriteByte('\n')
		return nil
	}))
	return out.String()
}

func TestDataThatMovesKeepsItsContentNamesModesOwnersAndTimes(t *testing.T) {
	from, to := pair(t)
	data, local := filepath.Join(from.Shared(), "data"), from.Local("web")
	at := time.Date(2020, 1, 2, 3, 4, 5, 6000, time.UTC)
	do(t,
		os.MkdirAll(filepath.Join(data, "closed", "empty"), 0o755),
		os.WriteFile(filepath.Join(data, "closed", "a\xff\n"), []byte("1"), 0o640),
		os.Link(filepath.Join(data, "closed", "a\xff\n"), filepath.Join(data, "second name")),
		os.Mkdir(filepath.Join(data, "dir\xfe"), 0o2775),
		os.WriteFile(filepath.Join(data, "dir\xfe", "b"), bytes.Repeat([]byte("x"), 3<<18), 0o400),
		os.Symlink("/etc/passwd", filepath.Join(local, "absolute")),
		os.Symlink("../secrets", filepath.Join(local, "up")),
		os.Symlink("nowhere", filepath.Join(local, "dangling")),
		os.Chmod(filepath.Join(data, "dir\xfe"), 0o2775|fs.ModeSetgid),
		os.Chmod(filepath.Join(data, "closed"), 0o500),
		os.Chtimes(filepath.Join(data, "second name"), at, at),
		os.Chtimes(filepath.Join(data, "closed"), at, at),
	)
	if os.Geteuid() == 0 {
		do(t, os.Lchown(filepath.Join(data, "second name"), 1234, 5678), os.Lchown(filepath.Join(local, "up"), 4321, 0))
	}
	want := tree(t, data) + tree(t, local)
	var steps []int64
	how := receipt
	how.Progress = func(done, _ int64) { steps = append(steps, done) }
	sum, err := to.Receive(sent(t, from, allocdir.Owner{UID: -1, GID: -1}), web, how)
	do(t, err)
	if !to.Arrived(web) {
		t.Fatal("it is not noted that the data has arrived")
	}
	do(t, to.Adopt(web))
	if got := tree(t, filepath.Join(to.Shared(), "data")) + tree(t, to.Local("web")); got != want {
		t.Errorf("it has arrived as\n%.2000s\nwas\n%.2000s", got, want)
	}
	if sum.Bytes != 3<<18+1 || len(steps) == 0 || steps[len(steps)-1] != sum.Bytes {
		t.Errorf("%+v, progress %v", sum, steps)
	}
	if _, err := os.Stat(filepath.Join(to.Task("web"), "private", "moved")); err == nil || to.Arrived(web) {
		t.Error("something is left of the move")
	}
}

func TestDataOfTasksWithoutUserBelongsToThoseOfTheOtherNode(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}
	from, to := pair(t)
	mine, theirs := filepath.Join(from.Local("web"), "mine"), filepath.Join(from.Local("web"), "theirs")
	do(t, os.WriteFile(mine, nil, 0o600), os.WriteFile(theirs, nil, 0o600), os.Chown(mine, 80001, 80001), os.Chown(theirs, 77, 77))
	how := receipt
	how.Owner = allocdir.Owner{UID: 90002, GID: 90002}
	_, err := to.Receive(sent(t, from, allocdir.Owner{UID: 80001, GID: 80001}), web, how)
	do(t, err, to.Adopt(web))
	got := tree(t, to.Local("web"))
	if !strings.Contains(got, `"mine" -rw------- 90002:90002`) || !strings.Contains(got, `"theirs" -rw------- 77:77`) {
		t.Error(got)
	}
}

func TestDevicesDoNotMoveAndNothingRunsAsItsOwner(t *testing.T) {
	from, to := pair(t)
	local := from.Local("web")
	do(t, syscall.Mkfifo(filepath.Join(local, "fifo"), 0o600), os.WriteFile(filepath.Join(local, "suid"), nil, 0o755), os.Chmod(filepath.Join(local, "suid"), 0o755|fs.ModeSetuid|fs.ModeSetgid))
	sum, err := to.Receive(sent(t, from, allocdir.Owner{}), web, receipt)
	do(t, err, to.Adopt(web))
	if got := tree(t, to.Local("web")); sum.Skipped != 1 || strings.Contains(got, "fifo") || !strings.Contains(got, `"suid" -rwxr-xr-x`) {
		t.Errorf("%+v\n%s", sum, got)
	}
}

func TestFoldersWithoutEndDoNotKeepTheRestFromMoving(t *testing.T) {
	from, to := pair(t)
	data := filepath.Join(from.Path, "alloc", "data")
	do(t, os.WriteFile(filepath.Join(data, "wanted"), []byte("yes"), 0o644))
	at, err := os.OpenRoot(data)
	do(t, err)
	for range 60 { // of 100 bytes each
		long := strings.Repeat("x", 99)
		do(t, at.Mkdir(long, 0o755))
		next, err := at.OpenRoot(long)
		do(t, err, at.Close())
		at = next
	}
	do(t, at.Close())
	sum, err := to.Receive(sent(t, from, allocdir.Owner{}), web, receipt)
	do(t, err, to.Adopt(web))
	if body, err := os.ReadFile(filepath.Join(to.Path, "alloc", "data", "wanted")); string(body) != "yes" {
		t.Errorf("what could move has not moved: %q, %v", body, err)
	}
	if sum.Skipped != 1 {
		t.Errorf("%d entries are said to be left behind, not the first one that is too deep", sum.Skipped)
	}
}

func TestAFolderThatATaskReplacedByALinkIsNotSent(t *testing.T) {
	from, to := pair(t)
	do(t, os.WriteFile(filepath.Join(from.Secrets("web"), "token"), []byte("s3cret"), 0o600),
		os.RemoveAll(filepath.Join(from.Shared(), "data")), os.Symlink("../web/secrets", filepath.Join(from.Shared(), "data")))
	stream := sent(t, from, allocdir.Owner{})
	if strings.Contains(stream.String(), "s3cret") {
		t.Error("a secret was sent")
	}
	_, err := to.Receive(stream, web, receipt)
	do(t, err, to.Adopt(web))
}

func TestAStreamThatBreaksOffLeavesNothing(t *testing.T) {
	from, to := pair(t)
	do(t, os.WriteFile(filepath.Join(from.Local("web"), "a"), bytes.Repeat([]byte("x"), 4096), 0o600))
	whole := sent(t, from, allocdir.Owner{}).Bytes()
	before := tree(t, to.Path)
	for _, n := range []int{0, 1, 511, 512, 1024, 1536, 3000, 5000, len(whole) / 2, len(whole) - 2048} {
		_, err := to.Receive(bytes.NewReader(whole[:n]), web, receipt)
		if !errdefs.IsUnavailable(err) && !errdefs.IsInvalidArgument(err) || to.Arrived(web) {
			t.Errorf("after %d of %d bytes: %v", n, len(whole), err)
		}
		if _, err := os.Stat(filepath.Join(to.Task("web"), "private", "moved")); err == nil {
			t.Errorf("after %d bytes something is left", n)
		}
	}
	_, err := to.Receive(io.MultiReader(bytes.NewReader(whole[:2000]), failing{}), web, receipt)
	if !errors.Is(err, errBroken) {
		t.Error(err)
	}
	do(t, os.RemoveAll(filepath.Join(to.Task("web"), "private")))
	if after := tree(t, to.Path); strings.Count(after, "\n") != strings.Count(before, "\n") {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

var errBroken = errors.New("broken")

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errBroken }

func TestAdoptingGoesOnWhereItWasInterrupted(t *testing.T) {
	from, to := pair(t)
	do(t, os.WriteFile(filepath.Join(from.Local("web"), "a"), nil, 0o600), os.WriteFile(filepath.Join(from.Shared(), "data", "b"), nil, 0o600))
	_, err := to.Receive(sent(t, from, allocdir.Owner{}), web, receipt)
	do(t, err)
	// The first folder was put into its place before the agent was killed.
	staged := filepath.Join(to.Task("web"), "private", "moved", "alloc", "data")
	do(t, os.RemoveAll(filepath.Join(to.Shared(), "data")), os.Rename(staged, filepath.Join(to.Shared(), "data")))
	do(t, to.Adopt(web))
	for _, name := range []string{filepath.Join(to.Shared(), "data", "b"), filepath.Join(to.Local("web"), "a")} {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
}

func TestMoreThanTheDiskOfTheAllocIsNotTaken(t *testing.T) {
	from, to := pair(t)
	do(t, os.WriteFile(filepath.Join(from.Local("web"), "a"), make([]byte, 2000), 0o600))
	stream := sent(t, from, allocdir.Owner{}).Bytes()
	_, err := to.Receive(bytes.NewReader(stream), web, allocdir.Receipt{MostBytes: 1999})
	if !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "make size larger") {
		t.Error(err)
	}
	_, err = to.Receive(bytes.NewReader(stream), web, allocdir.Receipt{MostBytes: 2000})
	do(t, err)
}

func TestNothingOfTheDataIsWrittenWithoutRoomForAllOfIt(t *testing.T) {
	from, to := pair(t)
	do(t, os.WriteFile(filepath.Join(from.Path, "alloc", "data", "big"), bytes.Repeat([]byte("x"), 3<<20), 0o644))
	large := receipt
	large.MostBytes = 10 << 20
	full := errdefs.ResourceExhaustedf("full")
	for name, free := range map[string]int64{"already": 2 << 20, "meanwhile": 3 << 20} {
		asked := int64(0)
		large.Room = func(n int64) error {
			if asked = max(asked, n); n > free {
				return full
			}
			free -= n / 2 // others write as well
			return nil
		}
		if _, err := to.Receive(sent(t, from, allocdir.Owner{}), web, large); !errors.Is(err, full) {
			t.Errorf("%s: it ends with %v", name, err)
		}
		if asked != 3<<20 {
			t.Errorf("%s: room was asked for %d bytes", name, asked)
		}
		if _, err := os.Stat(filepath.Join(to.Path, "web", "private", "moved")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: something is left: %v", name, err)
		}
	}
	if err := to.Room(1 << 60); !errdefs.IsResourceExhausted(err) {
		t.Errorf("there is room for 2^60 bytes: %v", err)
	}
}

func TestHolesMoveAsHolesAndTakeNoRoom(t *testing.T) {
	from, to := pair(t)
	name := filepath.Join(from.Local("web"), "database")
	f, err := os.Create(name)
	do(t, err)
	for _, at := range []int64{0, 5000, 1<<20 - 1, 9 << 20} {
		_, err := f.WriteAt([]byte("row"), at)
		do(t, err)
	}
	do(t, f.Truncate(20<<20), f.Close())
	want, err := os.ReadFile(name)
	do(t, err)
	how := allocdir.Receipt{MostBytes: 1 << 20}
	_, err = to.Receive(sent(t, from, allocdir.Owner{}), web, how)
	do(t, err, to.Adopt(web))
	name = filepath.Join(to.Local("web"), "database")
	got, err := os.ReadFile(name)
	do(t, err)
	if !bytes.Equal(got, want) {
		t.Errorf("the content has changed; it has %d bytes, and had %d", len(got), len(want))
	}
	info, err := os.Stat(name)
	do(t, err)
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; used > how.MostBytes {
		t.Errorf("it takes %d bytes of the disk", used)
	}
}

func TestAStreamIsNotBelievedWhatOfItIsHoles(t *testing.T) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range []struct {
		h    tar.Header
		body string
	}{
		{tar.Header{Typeflag: tar.TypeReg, Name: "drover-manifest.json"}, `{"Version":1,"Bytes":8192,"Used":0}`},
		{tar.Header{Typeflag: tar.TypeDir, Name: "alloc/data", Mode: 0o755}, ""},
		{tar.Header{Typeflag: tar.TypeReg, Name: "alloc/data/f", Mode: 0o644}, strings.Repeat("x", 8192)},
	} {
		e.h.Size, e.h.Format = int64(len(e.body)), tar.FormatPAX
		do(t, w.WriteHeader(&e.h))
		_, err := io.WriteString(w, e.body)
		do(t, err)
	}
	do(t, w.Close())
	_, to := pair(t)
	if _, err := to.Receive(&out, web, allocdir.Receipt{MostBytes: 8191}); !errdefs.IsInvalidArgument(err) || !strings.Contains(err.Error(), "make size larger") {
		t.Error(err)
	}
}

// hostile is a stream with the given entries between a manifest and a summary.
func hostile(t *testing.T, entries ...*tar.Header) *bytes.Buffer {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	put := func(h *tar.Header, body string) {
		h.Size, h.Format = int64(len(body)), tar.FormatPAX
		do(t, w.WriteHeader(h))
		_, err := io.WriteString(w, body)
		do(t, err)
	}
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "drover-manifest.json"}, `{"Version":1}`)
	for _, h := range entries {
		body := ""
		if h.Typeflag == tar.TypeReg {
			body = "evil"
		}
		put(h, body)
	}
	put(&tar.Header{Typeflag: tar.TypeReg, Name: "drover-summary.json"}, fmt.Sprintf(`{"Entries":%d,"Bytes":4}`, len(entries)))
	do(t, w.Close())
	return &out
}

func TestNothingInAStreamLeavesTheFoldersThatMove(t *testing.T) {
	folder := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755} }
	file := func(name string) *tar.Header { return &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644} }
	link := func(kind byte, name, to string) *tar.Header {
		return &tar.Header{Typeflag: kind, Name: name, Linkname: to}
	}
	for name, entries := range map[string][]*tar.Header{
		"up":                             {folder("alloc/data"), file("alloc/data/../../../evil")},
		"absolute":                       {folder("alloc/data"), file("/evil")},
		"another folder of the task":     {folder("alloc/data"), file("web/secrets/evil")},
		"another folder of the alloc":    {folder("alloc/logs"), file("alloc/logs/evil")},
		"another task":                   {folder("db/local"), file("db/local/evil")},
		"the folder itself as a link":    {link(tar.TypeSymlink, "alloc/data", "/tmp")},
		"the folder itself as a file":    {file("alloc/data")},
		"without its folder":             {file("alloc/data/evil")},
		"through a link":                 {folder("alloc/data"), link(tar.TypeSymlink, "alloc/data/l", "../../../../.."), file("alloc/data/l/evil")},
		"through a link in the folder":   {folder("alloc/data"), folder("alloc/data/d"), link(tar.TypeSymlink, "alloc/data/l", "d"), file("alloc/data/l/evil")},
		"over a link":                    {folder("alloc/data"), link(tar.TypeSymlink, "alloc/data/l", "/tmp/evil"), file("alloc/data/l")},
		"twice":                          {folder("alloc/data"), file("alloc/data/evil"), file("alloc/data/evil")},
		"a folder twice":                 {folder("alloc/data"), folder("alloc/data")},
		"another name of a file outside": {folder("alloc/data"), link(tar.TypeLink, "alloc/data/evil", "../../web/secrets/token")},
		"another name of an absolute":    {folder("alloc/data"), link(tar.TypeLink, "alloc/data/evil", "/etc/passwd")},
		"another name of a link":         {folder("alloc/data"), link(tar.TypeSymlink, "alloc/data/l", "/etc/passwd"), link(tar.TypeLink, "alloc/data/evil", "alloc/data/l")},
		"another name through a link":    {folder("alloc/data"), link(tar.TypeSymlink, "alloc/data/l", "/etc"), link(tar.TypeLink, "alloc/data/evil", "alloc/data/l/passwd")},
		"a device":                       {folder("alloc/data"), {Typeflag: tar.TypeBlock, Name: "alloc/data/evil", Devmajor: 8}},
		"a FIFO":                         {folder("alloc/data"), {Typeflag: tar.TypeFifo, Name: "alloc/data/evil"}},
		"a name with a zero length part": {folder("alloc/data"), file("alloc/data//evil")},
		"the place of the node's files":  {folder("web/private"), file("web/private/evil")},
		"too long":                       {folder("alloc/data"), link(tar.TypeSymlink, "alloc/data/evil", strings.Repeat("x", 5000))},
	} {
		t.Run(name, func(t *testing.T) {
			_, to := pair(t)
			above := filepath.Dir(filepath.Dir(to.Path))
			do(t, os.WriteFile(filepath.Join(to.Secrets("web"), "token"), []byte("s3cret"), 0o600))
			do(t, to.Discard(web))
			before := tree(t, above)
			_, err := to.Receive(hostile(t, entries...), web, receipt)
			if err == nil || to.Arrived(web) {
				t.Fatalf("it was taken: %v", err)
			}
			do(t, os.RemoveAll(filepath.Join(to.Task("web"), "private")))
			if after := tree(t, above); strings.Count(after, "\n") != strings.Count(before, "\n") {
				t.Errorf("was\n%s\nis\n%s", before, after)
			}
			if _, err := os.Lstat("/tmp/evil"); err == nil {
				t.Error("something was written outside")
			}
		})
	}
}

func TestGarbageIsNoData(t *testing.T) {
	_, to := pair(t)
	for _, text := range []string{"", "garbage", strings.Repeat("\x00", 4096), strings.Repeat("x", 4096)} {
		if _, err := to.Receive(strings.NewReader(text), web, receipt); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
}
