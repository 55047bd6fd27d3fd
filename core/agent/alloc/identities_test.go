// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package alloc_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/core/agent/alloc"
	"github.com/drover-project/drover/core/model"
	"github.com/drover-project/drover/sdk/errdefs"
)

// signer numbers the tokens that it signs.
type signer struct {
	mu    sync.Mutex
	asked int
	err   error
}

func (s *signer) Sign(_ context.Context, _, task string, names []string) ([]alloc.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.err != nil {
		return nil, s.err
	}
	var out []alloc.Token
	for _, n := range names {
		t := alloc.Token{Name: n, JWT: fmt.Sprintf("token-%s-%s-%d", task, n, s.asked)}
		if n == "short" || n == "other" {
			t.TTL = time.Hour
		}
		out = append(out, t)
	}
	return out, nil
}

func (s *signer) times() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

func (s *signer) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func withIdentities(t *testing.T, f func(t *testing.T, b *bed, s *signer)) {
	with(t, func(t *testing.T, b *bed) {
		s := &signer{}
		b.cfg.Identities = s
		f(t, b, s)
	})
}

func identityTask(mode, signal string) *model.Task {
	t := newTask("web")
	t.Identity = &model.WorkloadIdentity{Name: "default", Env: true, File: true}
	t.Identities = []*model.WorkloadIdentity{{Name: "short", File: true, TTL: time.Hour, ChangeMode: mode, ChangeSignal: signal}}
	return t
}

func (b *bed) file(name string) string {
	out, err := os.ReadFile(filepath.Join(b.cfg.Root, "a1", "web", name))
	if err != nil {
		return err.Error()
	}
	return string(out)
}

const defaultFile, shortFile = "secrets/nomad_token", "secrets/nomad_short.jwt"

func TestATaskGetsItsTokensBeforeItStartsAndNobodyElseSeesThem(t *testing.T) {
	withIdentities(t, func(t *testing.T, b *bed, s *signer) {
		s.fail(errdefs.Unavailablef("no server"))
		b.run(newAlloc(identityTask("", "")))
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("", "pending") // it is no failure of the task that servers are away
		if at := b.r.Steps()[0]; at.Step != alloc.StepIdentities {
			t.Errorf("%+v", at)
		}
		s.fail(nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		b.wants("web", "running")
		c := b.driver.configs[0]
		token := c.SecretEnv["NOMAD_TOKEN"]
		if !strings.HasPrefix(token, "token-web-default-") || c.Env["NOMAD_TOKEN"] != "" || c.SecretEnv["NOMAD_TOKEN_short"] != "" {
			t.Errorf("%v", c.SecretEnv)
		}
		if b.file(defaultFile) != token || !strings.HasPrefix(b.file(shortFile), "token-web-short-") {
			t.Errorf("%q %q", b.file(defaultFile), b.file(shortFile))
		}
		if info, err := os.Stat(filepath.Join(b.cfg.Root, "a1/web", shortFile)); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v %v", info, err)
		}
	})
}

func TestTokensAreRenewedAtHalfOfTheirTimeAndTheTaskIsTold(t *testing.T) {
	for mode, want := range map[string]string{"": "start web", "noop": "start web", "signal": "start web, SIGHUP web", "restart": "start web, stop web, start web"} {
		t.Run(mode, func(t *testing.T) {
			withIdentities(t, func(t *testing.T, b *bed, s *signer) {
				signal := ""
				if mode == "signal" {
					signal = "SIGHUP"
				}
				b.run(newAlloc(identityTask(mode, signal)))
				synctest.Wait()
				first, other := b.file(shortFile), b.file(defaultFile)
				time.Sleep(30*time.Minute - time.Second)
				synctest.Wait()
				if b.file(shortFile) != first {
					t.Error("it is renewed too early")
				}
				time.Sleep(2 * time.Second)
				synctest.Wait()
				b.wants("web", "running")
				if b.file(shortFile) == first || b.file(defaultFile) != other {
					t.Errorf("after half of the time: %q, %q", b.file(shortFile), b.file(defaultFile))
				}
				if got := b.driver.did(); got != want {
					t.Errorf("%s; want %s", got, want)
				}
				if s.times() != 2 {
					t.Errorf("asked %d times", s.times())
				}
			})
		})
	}
}

func TestRenewalOutlivesServersThatAreAwayAndARestartOfTheAgent(t *testing.T) {
	withIdentities(t, func(t *testing.T, b *bed, s *signer) {
		b.run(newAlloc(identityTask("signal", "SIGHUP")))
		synctest.Wait()
		first := b.file(shortFile)
		b.restart(func() { time.Sleep(20 * time.Minute) })
		synctest.Wait()
		if s.times() != 1 || b.file(shortFile) != first {
			t.Errorf("a restart of the agent renewed it: %d", s.times())
		}
		s.fail(errdefs.Unavailablef("no server"))
		time.Sleep(time.Hour)
		synctest.Wait()
		if b.file(shortFile) != first || strings.Contains(b.driver.did(), "SIGHUP") {
			t.Error("without servers it is not the old one")
		}
		s.fail(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if b.file(shortFile) == first || strings.Count(b.driver.did(), "SIGHUP") != 1 {
			t.Errorf("%q: %s", b.file(shortFile), b.driver.did())
		}
		b.restart(func() { time.Sleep(40 * time.Minute) }) // due while no agent ran
		time.Sleep(time.Second)
		synctest.Wait()
		if strings.Count(b.driver.did(), "SIGHUP") != 2 {
			t.Error(b.driver.did())
		}
		// For the servers the alloc has ended: nothing is asked again and again.
		s.fail(errdefs.PermissionDeniedf("ended"))
		asked := s.times()
		time.Sleep(10 * time.Hour)
		synctest.Wait()
		if s.times() != asked+1 {
			t.Errorf("asked %d times", s.times()-asked)
		}
	})
}

func TestATokenThatCannotBeWrittenHoldsNoOtherUpAndIsWrittenLater(t *testing.T) {
	withIdentities(t, func(t *testing.T, b *bed, s *signer) {
		web := identityTask("signal", "SIGHUP")
		web.Identities = append(web.Identities, &model.WorkloadIdentity{Name: "other", File: true, TTL: time.Hour, ChangeMode: "signal", ChangeSignal: "SIGUSR1"})
		b.run(newAlloc(web))
		synctest.Wait()
		const otherFile = "secrets/nomad_other.jwt"
		first := b.file(otherFile)
		stuck := filepath.Join(b.cfg.Root, "a1", "web", shortFile)
		if err := errors.Join(os.Remove(stuck), os.MkdirAll(filepath.Join(stuck, "full"), 0o755)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		did := b.driver.did()
		if b.file(otherFile) == first || strings.Count(did, "SIGUSR1") != 1 || strings.Contains(did, "SIGHUP") {
			t.Errorf("while one cannot be written: %q, %s", b.file(otherFile), did)
		}
		if err := os.RemoveAll(stuck); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		did = b.driver.did()
		if b.file(shortFile) == "" || strings.Count(did, "SIGHUP") != 1 || strings.Count(did, "SIGUSR1") != 1 {
			t.Errorf("afterwards: %q, %s", b.file(shortFile), did)
		}
	})
}
