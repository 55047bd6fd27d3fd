// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package agentlog_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/core/agentlog"
	"github.com/drover-project/drover/internal/testkit"
	"github.com/drover-project/drover/sdk/errdefs"
)

// clock is a time that a test sets.
type clock struct{ now time.Time }

func (c *clock) read() time.Time { return c.now }

// logs returns the log files of a directory by name, the current one last.
func logs(t *testing.T, dir string) (names []string, texts map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	texts = map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		names, texts[e.Name()] = append(names, e.Name()), string(b)
	}
	return names, texts
}

func TestAFileIsPutAwayAtItsSizeAndAgeAndOnlySomeStay(t *testing.T) {
	dir, c := t.TempDir(), &clock{time.Unix(1000, 0)}
	errs := &testkit.Journal{}
	f, err := agentlog.OpenFile(filepath.Join(dir, "a.log"), agentlog.Rotation{Bytes: 10, Every: time.Hour, Keep: 2, Now: c.read}, errs)
	if err != nil {
		t.Fatal(err)
	}
	write := func(text string) {
		t.Helper()
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	write("12345\n")
	write("789\n") // ten bytes
	if names, _ := logs(t, dir); len(names) != 1 {
		t.Fatalf("put away before it is full: %q", names)
	}
	c.now = time.Unix(2000, 0)
	write("a\n")
	c.now = c.now.Add(time.Hour - time.Second)
	write("b\n")
	c.now = c.now.Add(time.Second)
	write("c\n")
	names, texts := logs(t, dir)
	if want := []string{"a-2000000000000.log", "a-5600000000000.log", "a.log"}; !slices.Equal(names, want) {
		t.Fatalf("files %q, want %q", names, want)
	}
	if texts["a-2000000000000.log"] != "12345\n789\n" || texts["a-5600000000000.log"] != "a\nb\n" || texts["a.log"] != "c\n" {
		t.Errorf("%q", texts)
	}
	write("0123456789\n") // longer than a file: in one of its own, in the same moment
	names, texts = logs(t, dir)
	if len(names) != 3 || texts["a.log"] != "0123456789\n" || slices.Contains(names, "a-2000000000000.log") {
		t.Errorf("%q", texts)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if errs.String() != "" {
		t.Error(errs)
	}
}

func TestTheAgeOfAFileSurvivesARestart(t *testing.T) {
	dir, c := t.TempDir(), &clock{time.Unix(1000, 0)}
	path := filepath.Join(dir, "a.log")
	for i := range 5 { // a restart each half hour
		f, err := agentlog.OpenFile(path, agentlog.Rotation{Every: time.Hour, Bytes: 4, Now: c.read}, &testkit.Journal{})
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(f, "%d\n", i)
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		c.now = c.now.Add(30 * time.Minute)
	}
	if names, texts := logs(t, dir); len(names) != 3 {
		t.Errorf("%q", texts)
	}
}

func TestARotationThatFailsLosesNoLineAndIsReportedOnce(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root may write everywhere: the directory is replaced instead of locked")
	}
	dir := filepath.Join(t.TempDir(), "logs")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	errs := &testkit.Journal{}
	c := &clock{time.Unix(1000, 0)}
	f, err := agentlog.OpenFile(filepath.Join(dir, "a.log"), agentlog.Rotation{Bytes: 1, Now: c.read}, errs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dir, dir+"-away"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		fmt.Fprintln(f, "line")
	}
	if strings.Count(errs.String(), "could not be rotated") != 1 {
		t.Errorf("reported:\n%s", errs)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.now = c.now.Add(2 * time.Minute)
	fmt.Fprintln(f, "again")
	if _, texts := logs(t, dir); texts["a.log"] != "again\n" {
		t.Errorf("after the directory is back: %q", texts)
	}
}

func TestLevelFormatAndFileChangeWhileTheAgentRuns(t *testing.T) {
	dir := t.TempDir()
	out := &testkit.Journal{}
	o := agentlog.Options{Level: "INFO", File: dir}
	l, err := agentlog.Open("agent", out, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	part := l.Named("part")
	part.Debug("one")
	part.Info("two")
	o.Level, o.JSON = "DEBUG", true
	if err := os.Rename(filepath.Join(dir, "drover.log"), filepath.Join(dir, "moved")); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(o); err != nil {
		t.Fatal(err)
	}
	part.Debug("three", "n", 3)
	if part.GetLevel() != l.GetLevel() {
		t.Error("a part of the agent does not know the new level")
	}
	for _, bad := range []agentlog.Options{{Level: "LOUD"}, {Level: "INFO", File: filepath.Join(dir, "none", "x")}, {Level: "INFO", Syslog: true, Facility: "NONE"}} {
		if err := l.Apply(bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	part.Debug("four")
	text := out.String()
	if strings.Contains(text, "one") || !strings.Contains(text, "[INFO]  agent.part: two") || !strings.Contains(text, `"@message":"three"`) || !strings.Contains(text, `"@message":"four"`) || strings.Count(text, "\n") != 3 {
		t.Errorf("standard error:\n%s", text)
	}
	_, texts := logs(t, dir)
	if !strings.Contains(texts["moved"], "two") || strings.Contains(texts["moved"], "three") || strings.Count(texts["drover.log"], "\n") != 2 {
		t.Errorf("%q", texts)
	}
	if l.File() != filepath.Join(dir, "drover.log") {
		t.Error(l.File())
	}
}

func TestWhatLibrariesLogHasALevelAndTheFormatOfTheLog(t *testing.T) {
	out := &testkit.Journal{}
	o := agentlog.Options{Level: "DEBUG", JSON: true}
	l, err := agentlog.Open("agent", out, o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	before := log.Writer()
	release := l.Collect()
	log.Print("someone sent garbage")
	o.Level = "INFO"
	if err := l.Apply(o); err != nil {
		t.Error(err)
	}
	log.Print("and again")
	release()
	if log.Writer() != before {
		t.Error("the standard logger is not as it was")
	}
	if text := out.String(); strings.Count(text, "\n") != 1 || !strings.Contains(text, `"@level":"debug"`) || !strings.Contains(text, `"@message":"someone sent garbage"`) {
		t.Errorf("standard error:\n%s", text)
	}
}

func TestAnUnknownLevelIsRefusedAtTheStart(t *testing.T) {
	if _, err := agentlog.Open("agent", &testkit.Journal{}, agentlog.Options{Level: "LOUD"}); !errdefs.IsInvalidArgument(err) {
		t.Error(err)
	}
}
