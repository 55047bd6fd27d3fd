// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	goplugin "github.com/hashicorp/go-plugin"

	device "github.com/drover-project/drover/sdk/device/v1"
	"github.com/drover-project/drover/sdk/device/v1/devicetest/filedevice"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/driver/v1/drivertest/shelldriver"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/plugin"
	"github.com/drover-project/drover/sdk/schema"
)

// flagged reports whether the file is there that TESTPLUGIN_FLAG names, by which a
// test tells a plugin to begin.
func flagged() bool {
	_, err := os.Stat(os.Getenv("TESTPLUGIN_FLAG"))
	return err == nil
}

// notPlugins are programs that do not get as far as serving something.
var notPlugins = map[string]func(){
	"wrong-cookie": func() {
		goplugin.Serve(&goplugin.ServeConfig{
			HandshakeConfig: goplugin.HandshakeConfig{MagicCookieKey: "OTHER_COOKIE", MagicCookieValue: "1"},
			Plugins:         goplugin.PluginSet{}, GRPCServer: goplugin.DefaultGRPCServer,
		})
	},
	"garbage-handshake": func() {
		junk := make([]byte, 4096)
		_, _ = rand.Read(junk)
		fmt.Println(strings.ReplaceAll(string(junk), "\n", " "))
		select {}
	},
	// It ends while it is greeted.
	"ends-at-once": func() {
		fmt.Printf("1|%d|unix|%s|grpc\n", plugin.ProtocolVersion, filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "gone"))
	},
	"garbage-socket": func() {
		path := filepath.Join(os.Getenv(goplugin.EnvUnixSocketDir), "junk"+strconv.Itoa(os.Getpid()))
		l, err := net.Listen("unix", path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		fmt.Printf("1|%d|unix|%s|grpc\n", plugin.ProtocolVersion, path)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				for {
					if _, err := conn.Write([]byte("this is no gRPC at all\r\n")); err != nil {
						return
					}
				}
			}()
		}
	},
}

// bad is a driver that serves and does not behave.
type bad struct {
	*shelldriver.Driver
	how string
}

// badPlugins are the drivers of bad plugins, by name.
var badPlugins = map[string]bool{
	"absent": true, "closes-streams": true, "floods": true, "never-ends": true, "huge": true, "unknown-words": true, "stuck": true,
	"renames": true, "moon": true, "contradicts": true, "unsound-schema": true, "refuses-config": true, "garbage-stdout": true, "slow": true, "panics": true,
	"away-devices": true, "usurps": true, "on-demand": true,
}

// away are devices that cannot be reserved now.
type away struct{ *filedevice.Device }

func (away) Reserve(context.Context, []string) (*device.Reservation, error) {
	return nil, errdefs.Unavailablef("its daemon is away")
}

func (a away) ReserveForTask(ctx context.Context, r device.Request) (*device.Reservation, error) {
	return a.Reserve(ctx, r.IDs)
}

func serveBad(name string) error {
	if name == "away-devices" {
		return plugin.Serve(plugin.Info{Name: name, Version: "0.0.1"}, device.Service(away{filedevice.New("file")}))
	}
	b := &bad{Driver: shelldriver.New(driverName(name)), how: name}
	return plugin.Serve(plugin.Info{Name: name, Version: "0.0.1"}, driver.Service(b))
}

// driverName returns another name once the flag exists, for plugins that rename their
// driver: a new one, or one of the good plugin.
func driverName(name string) string {
	switch {
	case name == "renames" && flagged():
		return "renamed"
	case name == "usurps" && flagged():
		return "shell"
	}
	return name
}

func (b *bad) Info() driver.Info {
	info := b.Driver.Info()
	switch b.how {
	case "moon":
		info.Capabilities.FSIsolation = "moon"
	case "contradicts":
		info.Capabilities.UnknownUser, info.Capabilities.DefaultUser = true, "nobody"
	case "on-demand":
		info.Capabilities.OnDemand = true
	case "unsound-schema":
		info.TaskConfigSchema = schema.Schema{Attributes: []schema.Attribute{{Name: "spin", Type: "quaternion"}}}
	}
	return info
}

func (b *bad) SetConfig(ctx context.Context, config []byte) error {
	switch b.how {
	case "garbage-stdout": // the handshake is over
		go func() {
			for range time.Tick(time.Millisecond) {
				fmt.Println("1|2|3|garbage after the handshake|\x00\xff")
			}
		}()
	case "refuses-config":
		return errdefs.InvalidArgumentf("greeting: not that one, whatever the schema says")
	}
	return b.Driver.SetConfig(ctx, config)
}

func (b *bad) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint)
	say := func(f driver.Fingerprint) {
		select {
		case out <- f:
		case <-ctx.Done():
		}
	}
	healthy := driver.Fingerprint{Attributes: map[string]string{"driver." + b.how: "1"}, Health: driver.HealthHealthy}
	go func() {
		if b.how != "never-ends" {
			defer close(out)
		}
		switch b.how {
		case "absent":
			b.look(ctx, say)
			return
		case "closes-streams":
			note("fingerprint")
			say(healthy)
			return
		case "floods":
			for i := 0; ctx.Err() == nil; i++ {
				healthy.Attributes = map[string]string{"driver.floods": "1", "driver.floods.n": strconv.Itoa(i)}
				say(healthy)
			}
			return
		case "unknown-words":
			healthy.Health = "fabulous"
		case "never-ends":
			for range 100 {
				go func() { select {} }()
			}
		}
		say(healthy)
		<-ctx.Done()
	}()
	return out, nil
}

// look says whether the flag is there, whenever that changes.
func (b *bad) look(ctx context.Context, say func(driver.Fingerprint)) {
	note("look")
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for last := ""; ctx.Err() == nil; {
		f := driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: "the flag is not there"}
		if flagged() {
			f = driver.Fingerprint{Attributes: map[string]string{"driver.absent": "1"}, Health: driver.HealthHealthy}
		}
		if string(f.Health) != last {
			last = string(f.Health)
			say(f)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// note appends a line to the file that TESTPLUGIN_NOTES names, for a test to count.
func note(what string) {
	f, err := os.OpenFile(os.Getenv("TESTPLUGIN_NOTES"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = fmt.Fprintln(f, what)
}

func (b *bad) TaskEvents(ctx context.Context) (<-chan driver.TaskEvent, error) {
	out := make(chan driver.TaskEvent)
	switch b.how {
	case "closes-streams":
		note("events")
		close(out)
	case "floods":
		go func() {
			defer close(out)
			for ctx.Err() == nil {
				select {
				case out <- driver.TaskEvent{TaskID: "t", Message: "more water"}:
				case <-ctx.Done():
				}
			}
		}()
	case "never-ends":
	default:
		return b.Driver.TaskEvents(ctx)
	}
	return out, nil
}

func (b *bad) InspectTask(ctx context.Context, id string) (*driver.TaskStatus, error) {
	switch b.how {
	case "huge":
		return &driver.TaskStatus{ID: id, State: driver.TaskRunning, Attributes: map[string]string{"x": strings.Repeat("x", 15<<20), "y": strings.Repeat("y", 15<<20)}}, nil
	case "unknown-words":
		return &driver.TaskStatus{ID: id, State: "levitating"}, nil
	case "stuck", "never-ends":
		select {}
	case "panics":
		panic(errors.New("a bug"))
	}
	b.dawdle(ctx)
	return b.Driver.InspectTask(ctx, id)
}

// dawdle holds a call of the slow driver up once the flag is there.
func (b *bad) dawdle(ctx context.Context) {
	if b.how == "slow" && flagged() {
		note("call")
		<-ctx.Done()
	}
}

func (b *bad) StartTask(ctx context.Context, c *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	if b.how == "panics" {
		panic(errors.New("a bug in the start"))
	}
	b.dawdle(ctx)
	return b.Driver.StartTask(ctx, c)
}

func (b *bad) RecoverTask(ctx context.Context, h *driver.Handle) error {
	if h.TaskID == "elsewhere" {
		b.dawdle(ctx)
	}
	return b.Driver.RecoverTask(ctx, h)
}

func (b *bad) StopTask(ctx context.Context, id string, timeout time.Duration, signal string) error {
	b.dawdle(ctx)
	return b.Driver.StopTask(ctx, id, timeout, signal)
}

func (b *bad) DestroyTask(ctx context.Context, ref driver.TaskRef, force bool) error {
	b.dawdle(ctx)
	return b.Driver.DestroyTask(ctx, ref, force)
}

func (b *bad) SignalTask(ctx context.Context, id, signal string) error {
	b.dawdle(ctx)
	return b.Driver.SignalTask(ctx, id, signal)
}

func (b *bad) ExecTask(ctx context.Context, id string, o driver.ExecOptions, s driver.ExecStream) (driver.ExitResult, error) {
	b.dawdle(ctx)
	return b.Driver.ExecTask(ctx, id, o, s)
}
