// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverdocker

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"

	driver "github.com/drover-project/drover/sdk/driver/v1"
)

const (
	// lookAway is the time between pings of a daemon that is unreachable, lookWell of
	// one that answers.
	lookAway = 5 * time.Second
	lookWell = 15 * time.Second
	// pingLimit is the time after which a daemon that does not answer is considered
	// hung.
	pingLimit = 10 * time.Second
)

// Fingerprint implements driver.Driver.
func (d *Driver) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint)
	go func() {
		defer close(out)
		var last driver.Fingerprint
		for sent := false; ; {
			agent, x, changed := d.now()
			f := undetected("the driver has no config yet")
			var kick <-chan struct{}
			if x != nil {
				f, kick = x.fingerprint(ctx, agent, last), x.kick
			}
			if ctx.Err() != nil {
				return
			}
			if f.Health == driver.HealthUnhealthy && last.Health == driver.HealthHealthy {
				d.tellStarting("The Docker daemon does not answer; the start continues when it does, or fails")
			}
			if !sent || !equal(f, last) {
				select {
				case out <- f:
				case <-ctx.Done():
					return
				}
				last, sent = f, true
			}
			wait := lookWell
			if f.Health != driver.HealthHealthy {
				wait = lookAway
			}
			if !until(ctx, wait, changed, kick) {
				return
			}
		}
	}()
	return out, nil
}

// tellStarting emits an event for each task whose start is in progress.
func (d *Driver) tellStarting(message string) {
	d.mu.Lock()
	ids := slices.Collect(maps.Keys(d.starting))
	d.mu.Unlock()
	for _, id := range ids {
		d.events.tell(id, message, nil)
	}
}

// until waits for the time, a config change or a kick. It returns false if ctx ends
// first.
func until(ctx context.Context, wait time.Duration, changed, kick <-chan struct{}) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	case <-changed:
		return true
	case <-kick:
		// A kick is often sent while the daemon's state is still changing, so wait a moment.
		return pause(ctx, 500*time.Millisecond)
	}
}

func equal(a, b driver.Fingerprint) bool {
	return a.Health == b.Health && a.HealthDescription == b.HealthDescription && maps.Equal(a.Attributes, b.Attributes)
}

func undetected(why string) driver.Fingerprint {
	return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: why}
}

// fingerprint queries the daemon. If a daemon that has answered before is
// unreachable, the driver is unhealthy; if it never answered, the driver is
// undetected.
func (d *daemon) fingerprint(ctx context.Context, agent agentConfig, last driver.Fingerprint) driver.Fingerprint {
	limited, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	_, err := d.api.Load().Ping(limited, client.PingOptions{NegotiateAPIVersion: true})
	if err == nil {
		if last.Health == driver.HealthHealthy && d.seen() && last.Attributes["driver.docker.endpoint"] == d.endpoint {
			return d.configured(last.Attributes, agent)
		}
		var f driver.Fingerprint
		if f, err = d.describe(limited, agent); err == nil {
			return f
		}
	}
	d.forget()
	cure := "start it, or set endpoint in the agent's plugin \"docker\" config"
	if forbidden(limited, d.endpoint) {
		cure = "run the agent as root, or as a member of the group that owns the socket"
	}
	f := undetected("the Docker daemon at " + d.endpoint + " does not answer: " + err.Error() + "; " + cure)
	if last.Health != driver.HealthUndetected && last.Health != "" {
		f.Health, f.Attributes = driver.HealthUnhealthy, last.Attributes
	}
	return f
}

// forbidden reports whether the daemon has a socket to which this user may not connect. The
// error of Docker's client says so in words only.
func forbidden(ctx context.Context, endpoint string) bool {
	path, isSocket := strings.CutPrefix(endpoint, "unix://")
	if !isSocket {
		return false
	}
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err == nil {
		_ = conn.Close()
	}
	return errors.Is(err, fs.ErrPermission)
}

func (d *daemon) seen() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.facts.known
}

func (d *daemon) describe(ctx context.Context, agent agentConfig) (driver.Fingerprint, error) {
	info, err := d.api.Load().Info(ctx, client.InfoOptions{})
	if err != nil {
		return driver.Fingerprint{}, err
	}
	d.mu.Lock()
	d.facts = factsOf(info.Info)
	d.mu.Unlock()
	attrs := map[string]string{
		"driver.docker": "1", "driver.docker.version": info.Info.ServerVersion, "driver.docker.os_type": info.Info.OSType,
		"driver.docker.runtimes": strings.Join(slices.Sorted(maps.Keys(info.Info.Runtimes)), ","),
		"driver.docker.endpoint": d.endpoint, "driver.docker.api_version": d.api.Load().ClientVersion(),
		"driver.docker.live_restore": strconv.FormatBool(info.Info.LiveRestoreEnabled),
	}
	// A daemon may have no bridge network.
	if n, err := d.api.Load().NetworkInspect(ctx, "bridge", client.NetworkInspectOptions{}); err == nil {
		for _, c := range n.Network.IPAM.Config {
			if c.Gateway.IsValid() && c.Gateway.Is4() {
				attrs["driver.docker.bridge_ip"] = c.Gateway.String()
			}
		}
	}
	return d.configured(attrs, agent), nil
}

// configured adds the attributes that depend on the agent's config.
func (d *daemon) configured(attrs map[string]string, agent agentConfig) driver.Fingerprint {
	attrs = maps.Clone(attrs)
	for name, on := range map[string]bool{"privileged.enabled": agent.AllowPrivileged, "volumes.enabled": agent.Volumes.Enabled} {
		delete(attrs, "driver.docker."+name)
		if on {
			attrs["driver.docker."+name] = "true"
		}
	}
	return driver.Fingerprint{Attributes: attrs, Health: driver.HealthHealthy, HealthDescription: "Healthy"}
}
