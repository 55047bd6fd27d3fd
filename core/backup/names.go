// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package backup

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/core/backup/wire"
)

// Stored is a snapshot in a store.
type Stored struct {
	Name string
	Time time.Time // when it was taken
	Size int64     // in bytes
}

const suffix = ".snap"

// nameAt returns the name of a snapshot: PREFIX-NANOSECONDS.snap, in Unix time.
func nameAt(prefix string, at time.Time) string {
	return prefix + "-" + strconv.FormatInt(at.UnixNano(), 10) + suffix
}

// own returns the objects whose names have the form of nameAt, the oldest first. Those with a
// time after latest come before all others: a clock was wrong when they were taken, and
// retention must not prefer them to new ones.
func own(prefix string, objects []wire.Object, latest time.Time) []Stored {
	out := []Stored{}
	for _, o := range objects {
		digits, isOwn := strings.CutPrefix(o.Name, prefix+"-")
		if digits, isOwn = cutSuffix(digits, isOwn); !isOwn {
			continue
		}
		ns, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || ns <= 0 || nameAt(prefix, time.Unix(0, ns)) != o.Name {
			continue
		}
		out = append(out, Stored{Name: o.Name, Time: time.Unix(0, ns).UTC(), Size: o.Size})
	}
	slices.SortFunc(out, func(x, y Stored) int {
		if early := y.Time.After(latest); early != x.Time.After(latest) {
			if early {
				return 1
			}
			return -1
		}
		return x.Time.Compare(y.Time)
	})
	return out
}

func cutSuffix(name string, isOwn bool) (string, bool) {
	digits, found := strings.CutSuffix(name, suffix)
	return digits, isOwn && found
}

// unfinished is the pattern of the names of files that are not complete yet.
func unfinished(prefix string) string { return "." + prefix + "-*.part" }

// abandoned is how long ago an unfinished file was last written to if its writer is gone.
const abandoned = time.Hour

// sweep removes unfinished files that a killed agent left.
func (a *Agent) sweep(dir string) {
	if dir == "" {
		dir = os.TempDir()
	}
	files, err := filepath.Glob(filepath.Join(dir, unfinished(a.cfg.Prefix)))
	if err != nil {
		return // the name of the folder itself is a pattern, so nothing is removed
	}
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || a.cfg.Now().Sub(info.ModTime()) < abandoned {
			continue
		}
		if err := os.Remove(f); err != nil {
			a.cfg.Logger.Warn("an unfinished snapshot could not be removed", "file", f, "error", err)
		}
	}
}
