// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package server_test

import (
	"context"
	"fmt"
	"hash/crc64"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sync/errgroup"

	"github.com/drover-project/drover/core/server"
	"github.com/drover-project/drover/internal/testkit"
)

const (
	damagedDir   = "DROVER_DAMAGED_DIR"
	hostileVars  = 120 // variables that were acknowledged
	hostileStart = time.Minute
)

// The outcomes of a start on damaged data, as exit codes of the process that tries.
const (
	startedWhole = 10
	refusedIt    = 11
	lostSome     = 12
	notStarted   = 13 // the test itself failed
)

// TestDamagedChild is the process that starts on damaged data: badger maps its files
// into memory, so damage may end the whole process.
func TestDamagedChild(t *testing.T) {
	dir := os.Getenv(damagedDir)
	if dir == "" {
		t.Skip("only the hostile tests run this")
	}
	os.Exit(startDamaged(dir))
}

func startDamaged(dir string) int {
	s, err := server.New(server.Config{DataDir: dir, Dev: true, Logger: hclog.NewNullLogger()})
	if err != nil {
		fmt.Println(err)
		return refusedIt
	}
	s.Start()
	ctx, cancel := context.WithTimeout(context.Background(), hostileStart)
	defer cancel()
	if err := s.WaitLeader(ctx); err != nil {
		fmt.Println(err)
		return refusedIt
	}
	for i := range hostileVars {
		row := s.Endpoint().Store.View().VariableByPath("default", fmt.Sprintf("app/%d", i))
		if row == nil {
			fmt.Printf("variable %d of %d is missing\n", i, hostileVars)
			return lostSome
		}
		if v, err := s.Endpoint().OpenVariable(row); err != nil || v.Items["n"] != strconv.Itoa(i) {
			fmt.Printf("variable %d of %d: %v, %v\n", i, hostileVars, v, err)
			return lostSome
		}
	}
	return startedWhole
}

// acknowledgedData writes variables and returns the data directory of a server that was
// stopped and of one that was killed.
func acknowledgedData(t *testing.T) (stopped, killed string) {
	t.Helper()
	stopped, killed = filepath.Join(t.TempDir(), "stopped"), filepath.Join(t.TempDir(), "killed")
	t.Run("write", func(t *testing.T) {
		c := testkit.StartWith(t, server.Config{DataDir: stopped, SnapshotThreshold: 40, TrailingLogs: 10})
		for i := range hostileVars {
			c.Must("PUT", fmt.Sprintf("/v1/var/app/%d", i), fmt.Sprintf(`{"Items":{"n":"%d"}}`, i), nil)
			if i == hostileVars/2 {
				c.Ask("GET", "/v1/operator/snapshot", nil) // takes one
			}
		}
		if err := os.CopyFS(killed, os.DirFS(stopped)); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(filepath.Join(killed, "raft", "log", "LOCK"))
	})
	return stopped, killed
}

// damage is one thing that a bad disk does to a file.
var damage = map[string]func(rng *rand.Rand, b []byte) []byte{
	"a bit":    func(rng *rand.Rand, b []byte) []byte { b[rng.IntN(len(b))] ^= 1 << rng.IntN(8); return b },
	"a sector": func(rng *rand.Rand, b []byte) []byte { i := rng.IntN(len(b)); clear(b[i:min(len(b), i+512)]); return b },
	"cut off":  func(rng *rand.Rand, b []byte) []byte { return b[:rng.IntN(len(b))] },
	"gone":     func(*rand.Rand, []byte) []byte { return nil },
}

// used is the part of a file that is not a hole at its end.
func used(b []byte) []byte {
	for len(b) > 0 && b[len(b)-1] == 0 {
		b = b[:len(b)-1]
	}
	return b
}

func TestHostileDamageOfAnyFileIsSurvivedOrRefusedAndNothingIsLostWithoutAWord(t *testing.T) {
	rounds := testkit.HostileRounds(t, 1)
	seed := uint64(time.Now().UnixNano())
	if n, err := strconv.ParseUint(os.Getenv("DROVER_HOSTILE_SEED"), 10, 64); err == nil {
		seed = n
	}
	t.Logf("seed %d", seed)
	stopped, killed := acknowledgedData(t)
	outcomes := map[string]int{}
	var mu sync.Mutex
	var work errgroup.Group
	work.SetLimit(4 * runtime.GOMAXPROCS(0)) // a start mostly waits
	for _, from := range []string{stopped, killed} {
		if code, out := start(t, from); code != startedWhole {
			t.Fatalf("undamaged, %s: %d %s", filepath.Base(from), code, out)
		}
		for _, file := range filesOf(t, from) {
			for what, do := range damage {
				for round := range rounds {
					name := fmt.Sprintf("%s, %s of %s, round %d", filepath.Base(from), what, file, round)
					rng := rand.New(rand.NewPCG(seed, crc64.Checksum([]byte(name), crc64.MakeTable(crc64.ISO))))
					work.Go(func() error {
						code, out := damaged(t, from, file, rng, do)
						mu.Lock()
						defer mu.Unlock()
						switch code {
						case startedWhole:
							outcomes["started with all"]++
						case refusedIt:
							outcomes["refused"]++
						default:
							outcomes["bad"]++
							t.Errorf("%s: code %d: %s", name, code, out)
						}
						return nil
					})
				}
			}
		}
	}
	_ = work.Wait() // no function fails: they report to the test
	t.Logf("%v", outcomes)
}

// filesOf are the files below a directory that hold something.
func filesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "LOCK" {
			return err
		}
		b, err := os.ReadFile(path)
		if rel, e := filepath.Rel(dir, path); e == nil && len(used(b)) > 0 {
			out = append(out, rel)
		}
		return err
	})
	if err != nil || len(out) < 6 {
		t.Fatalf("files %v, %v", out, err)
	}
	return out
}

func damaged(t *testing.T, from, file string, rng *rand.Rand, do func(*rand.Rand, []byte) []byte) (int, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "d")
	if out, err := exec.Command("cp", "-a", "--sparse=always", from, dir).CombinedOutput(); err != nil {
		return notStarted, fmt.Sprintf("%v: %s", err, out)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, file)
	whole, err := os.ReadFile(path)
	if err != nil {
		return notStarted, err.Error()
	}
	changed := do(rng, used(whole))
	if changed == nil {
		err = os.Remove(path)
	} else {
		err = os.WriteFile(path, changed, 0o600)
		if grown := int64(len(whole)); err == nil && len(changed) == len(used(whole)) {
			err = os.Truncate(path, grown) // the hole at its end
		}
	}
	if err != nil {
		return notStarted, err.Error()
	}
	return start(t, dir)
}

// start starts a server in a process of its own and returns the outcome.
func start(t *testing.T, dir string) (code int, out string) {
	t.Helper()
	work := filepath.Join(t.TempDir(), "s")
	if out, err := exec.Command("cp", "-a", "--sparse=always", dir, work).CombinedOutput(); err != nil {
		return notStarted, fmt.Sprintf("%v: %s", err, out)
	}
	defer os.RemoveAll(work)
	cmd := exec.Command(os.Args[0], "-test.run=^TestDamagedChild$")
	cmd.Env = append(os.Environ(), damagedDir+"="+work)
	text, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		return notStarted, err.Error()
	}
	lines := strings.TrimSpace(string(text))
	return cmd.ProcessState.ExitCode(), lines[:min(len(lines), 1500)]
}
