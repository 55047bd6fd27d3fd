// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

// Package fetch is the child process that fetches one artifact: it reads a request,
// confines itself to the staging directory, fetches with go-getter within limits,
// and writes the answer. It owns the getters, the sandbox, the extraction of
// archives, and the guard that rejects addresses outside the reach of the source. It
// does not inspect the result or move it into the task's directory: the agent does.
// Only cmd/drover-artifact may import it.
package fetch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	getter "github.com/hashicorp/go-getter"

	"github.com/drover-project/drover/core/agent/artifact/wire"
	"github.com/drover-project/drover/sdk/errdefs"
)

// unpackTime is added to the time limit of the source, because an archive is
// extracted after it was downloaded.
const unpackTime = 30 * time.Minute

// Main reads a request from stdin, fetches the artifact, writes the answer to
// stdout, and returns the exit code.
func Main(stdin io.Reader, stdout io.Writer) int {
	out := &answers{w: stdout}
	in := bufio.NewReader(stdin)
	req, err := wire.ReadRequest(in)
	if err != nil {
		out.send(wire.Failed(err))
		return 2
	}
	go endWith(in)
	isolated, err := run(req, out)
	if err != nil {
		a := wire.Failed(err)
		a.Isolated = isolated
		out.send(a)
		return 1
	}
	out.send(wire.Answer{Done: true, Isolated: isolated})
	return 0
}

// endWith kills this process and its children when its input ends, because then the
// agent is gone.
func endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	killOwnGroup()
	os.Exit(3)
}

// answers serializes the answers to the agent.
type answers struct {
	mu sync.Mutex
	w  io.Writer
}

func (a *answers) send(v wire.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = wire.Write(a.w, v) // if the agent is gone, nobody reads the answer
}

// job is one fetch.
type job struct {
	req    *wire.Request
	scheme string // name of the getter
	part   string // what is selected of the source after its //, or ""
	guard  *guard
	meter  meter
	began  time.Time
}

func run(req *wire.Request, out *answers) (isolated bool, err error) {
	tools := needsTools(req.Source)
	if isolated, err = lockIn(req, tools); err != nil {
		return isolated, errdefs.Unavailablef("lock the fetch in: %w", err)
	}
	if err := os.Chdir(req.Staging); err != nil {
		return isolated, errdefs.Unavailablef("enter the staging folder: %w", err)
	}
	source, err := getter.Detect(req.Source, "", detectors())
	if err != nil {
		return isolated, errdefs.InvalidArgumentf("the source cannot be parsed: %w; write it with its protocol, such as https://", err)
	}
	j := &job{req: req, began: time.Now()}
	if err := j.check(source); err != nil {
		return isolated, err
	}
	return isolated, j.get(source, out)
}

// get fetches a source that check has accepted.
func (j *job) get(source string, out *answers) error {
	limit := j.timeout()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, limit+unpackTime, errdefs.Unavailablef("the fetch took longer than %s", limit+unpackTime))
		defer stop()
	}
	stopProxy, err := j.prepareTools()
	if err != nil {
		return err
	}
	defer stopProxy()
	watched := make(chan struct{})
	watchCtx, stopWatch := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		j.watch(watchCtx, cancel, out)
	}()
	client := &getter.Client{
		Ctx: ctx, Src: source, Dst: filepath.Join(j.req.Staging, wire.OutName), Mode: clientMode(j.req.Mode),
		Detectors: detectors(), Decompressors: j.decompressors(ctx), Getters: j.getters(),
	}
	err = client.Get()
	stopWatch()
	<-watched
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = j.hasPart(client.Dst)
	}
	return j.classify(ctx, err)
}

// hasPart refuses a selected part that gave nothing. go-getter copies what is in a folder,
// and so copies nothing, and reports no error, if the part is a file.
func (j *job) hasPart(out string) error {
	if j.part == "" {
		return nil
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		return errdefs.Unavailablef("read what was fetched: %w", err)
	}
	if len(entries) == 0 {
		return errdefs.InvalidArgumentf("the part %q of the source gave nothing: it is a file, or an empty folder; name the folder that has the file", j.part)
	}
	return nil
}

func clientMode(mode string) getter.ClientMode {
	switch mode {
	case "file":
		return getter.ClientModeFile
	case "dir":
		return getter.ClientModeDir
	}
	return getter.ClientModeAny
}

// detectors are go-getter's detectors without the one for relative paths, since
// there is no directory that a source could be relative to.
func detectors() []getter.Detector {
	return []getter.Detector{
		new(getter.GitHubDetector), new(getter.GitLabDetector), new(getter.GitDetector),
		new(getter.BitBucketDetector), new(getter.S3Detector), new(getter.GCSDetector),
	}
}

// needsTools reports whether a source is fetched by git or hg. It decides without
// asking a server.
func needsTools(source string) bool {
	if strings.HasPrefix(source, "bitbucket.org/") {
		return true // Bitbucket's API tells whether the repository uses git or hg
	}
	found, err := getter.Detect(source, "", []getter.Detector{new(getter.GitHubDetector), new(getter.GitLabDetector), new(getter.GitDetector)})
	if err != nil {
		return false
	}
	scheme, _ := split(found)
	return scheme == "git" || scheme == "hg"
}

// split returns the getter of a source and the source itself. If the source forces a
// getter, as in "git::URL", the prefix is removed.
func split(source string) (scheme, rest string) {
	if forced, rest, ok := strings.Cut(source, "::"); ok && !strings.ContainsAny(forced, ":/?") {
		return forced, rest
	}
	scheme, _, _ = strings.Cut(source, ":")
	return strings.ToLower(scheme), source
}

func (j *job) timeout() time.Duration {
	l := j.req.Limits
	switch j.scheme {
	case "git":
		return l.GitTimeout
	case "hg":
		return l.HgTimeout
	case "s3":
		return l.S3Timeout
	case "gcs":
		return l.GCSTimeout
	}
	return l.HTTPReadTimeout
}

// prepareTools checks that git or hg is installed if the source needs it, and routes
// its connections through the guard.
func (j *job) prepareTools() (stop func(), err error) {
	stop = func() {}
	if j.scheme != "git" && j.scheme != "hg" {
		return stop, nil
	}
	if _, err := exec.LookPath(j.scheme); err != nil {
		return stop, errdefs.Unavailablef("%s artifacts need the program %s, which is not installed on this node (PATH is %q); install it", j.scheme, j.scheme, os.Getenv("PATH"))
	}
	if err := configureGit(j.req.Staging, j.req.Source); err != nil {
		return stop, err
	}
	return j.guard.serveProxy()
}

// configureGit sets up an environment in which git never prompts, runs no hooks, and
// uses no protocol that reads local files or runs programs.
func configureGit(staging, source string) error {
	home := filepath.Join(staging, wire.HomeName)
	const config = "[safe]\n\tdirectory = *\n[core]\n\thooksPath = /dev/null\n[advice]\n\tdetachedHead = false\n[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n"
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(config), 0o600); err != nil {
		return fmt.Errorf("write the configuration of git: %w", err)
	}
	allowed := "http:https"
	_, rest := split(source)
	if proto, _, ok := strings.Cut(rest, "://"); !ok {
		allowed += ":ssh"
	} else if proto == "ssh" || proto == "git" || proto == "file" {
		allowed += ":" + proto
	}
	for k, v := range map[string]string{"GIT_TERMINAL_PROMPT": "0", "GIT_ASKPASS": "", "SSH_ASKPASS": "", "GIT_ALLOW_PROTOCOL": allowed, "HGPLAIN": "1"} {
		if err := os.Setenv(k, v); err != nil {
			return fmt.Errorf("set %s: %w", k, err)
		}
	}
	if os.Getenv("GIT_SSH_COMMAND") == "" {
		return os.Setenv("GIT_SSH_COMMAND", "ssh -o BatchMode=yes")
	}
	return nil
}
