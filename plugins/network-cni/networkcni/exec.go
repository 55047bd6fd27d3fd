// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package networkcni

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/drover-project/drover/sdk/errdefs"
)

// Bounds of a call of a CNI program.
const (
	maxOutput  = 1 << 20         // bytes of its answer and of its messages, each
	maxMessage = 2 << 10         // bytes of them in an error
	endsWithin = 2 * time.Second // its children may hold its output open

	usualPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
)

// cni returns the library, which calls the programs of the present settings.
func (n *Network) cni() *libcni.CNIConfig {
	set, _ := n.current()
	return libcni.NewCNIConfigWithCacheDir(set.programs(), n.store.Dir, &programs{})
}

// programs runs CNI programs for the library, which itself bounds neither what they print
// nor how long their children hold the output open.
type programs struct{ version.PluginDecoder }

var _ invoke.Exec = (*programs)(nil)

func (*programs) FindInPath(name string, paths []string) (string, error) {
	path, err := invoke.FindInPath(name, paths)
	if err != nil {
		return "", errdefs.FailedPreconditionf("the CNI program %q is not in cni_path: %w", name, err)
	}
	return path, nil
}

// ExecPlugin returns the answer of a program.
func (*programs) ExecPlugin(ctx context.Context, path string, input []byte, environ []string) ([]byte, error) {
	answer, messages, err := run(ctx, path, input, environ)
	if err == nil {
		return answer.kept.Bytes(), nil
	}
	if answer.over || messages.over {
		return nil, &types.Error{Msg: fmt.Sprintf("the program %s printed more than %d bytes", path, maxOutput)}
	}
	told := &types.Error{}
	if json.Unmarshal(answer.kept.Bytes(), told) == nil && told.Msg != "" {
		return nil, told
	}
	said := strings.ToValidUTF8(strings.TrimSpace(cmp.Or(messages.kept.String(), answer.kept.String())), "?")
	return nil, &types.Error{Msg: fmt.Sprintf("the program %s: %v: %.*s", path, err, maxMessage, said)}
}

// run runs a program to its end and returns what it printed.
func run(ctx context.Context, path string, input []byte, environ []string, args ...string) (out, messages *bounded, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, messages = &bounded{full: cancel}, &bounded{full: cancel}
	cmd := exec.CommandContext(ctx, path, args...)
	if environ == nil {
		environ = os.Environ()
	}
	if !slices.ContainsFunc(environ, func(kv string) bool { return strings.HasPrefix(kv, "PATH=") }) {
		environ = append(environ, usualPath) // programs call others, such as iptables
	}
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = environ, bytes.NewReader(input), out, messages
	cmd.WaitDelay = endsWithin
	endWithChildren(cmd)
	endWithPlugin(cmd)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	return out, messages, err
}

// bounded keeps the beginning of an output.
type bounded struct {
	kept bytes.Buffer // not embedded: its ReadFrom has no bound
	full func()       // ends the program
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	if b.kept.Len()+len(p) > maxOutput {
		b.over = true
		b.full()
		return len(p), nil
	}
	return b.kept.Write(p)
}

// full is what the program host-local says, without a code, of a network without a free address.
const full = "no IP addresses available"

// answerBefore is how much earlier than its caller the plugin gives up, so that the caller
// learns which program does not end. A killed program needs endsWithin.
const answerBefore = 5 * time.Second

// inTime returns a context that ends before ctx.
func inTime(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(answerBefore, time.Until(end)/4)))
}

// classified gives an error of the programs its class, by the codes of the CNI specification.
func classified(ctx context.Context, doing string, rec *record, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded): // the plugin answers, so it is not DeadlineExceeded
		return errdefs.FailedPreconditionf("%s the network %s of alloc %s: a CNI program did not end in time and was killed; see why it hangs: %w", doing, rec.Network, rec.AllocID, err)
	case ctx.Err() != nil:
		return errdefs.Canceledf("%s the network %s of alloc %s: %w", doing, rec.Network, rec.AllocID, err)
	}
	var told *types.Error
	if errors.As(err, &told) {
		if strings.Contains(told.Msg, full) {
			return errdefs.ResourceExhaustedf("%s the network %s of alloc %s: %w; give its configuration in cni_config_dir a larger subnet", doing, rec.Network, rec.AllocID, err)
		}
		switch told.Code {
		case types.ErrTryAgainLater, types.ErrPluginNotAvailable, types.ErrLimitedConnectivity:
			return errdefs.Unavailablef("%s the network %s of alloc %s: %w", doing, rec.Network, rec.AllocID, err)
		}
	}
	return errdefs.FailedPreconditionf("%s the network %s of alloc %s: %w", doing, rec.Network, rec.AllocID, err)
}
