// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package serve

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// In the package: what it tests is how soon a stream wakes, which shows outside
// only as time.
func TestASleeperWakesWhenAWatchedFileIsWrittenOrAFileAppears(t *testing.T) {
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	folder, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	const never = time.Hour // longer than a test may take
	for name, change := range map[string]func() error{
		"written": func() error { _, err := f.WriteString("news\n"); return err },
		"new":     func() error { return os.WriteFile(filepath.Join(dir, "log.1"), nil, 0o600) },
	} {
		w := newWaker()
		w.add(f)
		w.add(folder)
		if w.events == nil {
			t.Skip("this machine gives no inotify instance")
		}
		failed := make(chan error, 1)
		go func() { failed <- change() }()
		if err := w.sleep(t.Context(), never); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := <-failed; err != nil {
			t.Fatal(err)
		}
		w.close()
	}
	w := newWaker()
	defer w.close()
	w.add(f)
	ctx, cancel := context.WithCancel(t.Context())
	go cancel()
	if err := w.sleep(ctx, never); !errors.Is(err, context.Canceled) {
		t.Errorf("the end of the context woke it with %v", err)
	}
}
