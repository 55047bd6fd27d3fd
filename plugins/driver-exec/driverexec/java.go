// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package driverexec

import (
	"context"
	"errors"
	"maps"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/plugins/internal/supervisor"
	driver "github.com/drover-project/drover/sdk/driver/v1"
	"github.com/drover-project/drover/sdk/errdefs"
	"github.com/drover-project/drover/sdk/schema"
)

// Java is the task driver java. It runs Java programs in the same sandbox as the
// driver exec, with the JVM in the agent's PATH.
type Java struct {
	isolated
	jvms *jvmFinder
}

// NewJava returns the driver. dir is the directory of its supervisor.
func NewJava(dir string) *Java { return &Java{newIsolated(dir), newJVMFinder(dir)} }

// javaTaskConfig is the config block of a task.
type javaTaskConfig struct {
	JarPath    string   `json:"jar_path"`
	Class      string   `json:"class"`
	ClassPath  string   `json:"class_path"`
	JVMOptions []string `json:"jvm_options"`
	Args       []string `json:"args"`
	boxConfig
}

// Info implements driver.Driver.
func (d *Java) Info() driver.Info {
	return driver.Info{
		Name: "java", Capabilities: isolatedCapabilities(), ConfigSchema: isolatedAgentSchema(),
		TaskConfigSchema: schema.Schema{Attributes: append([]schema.Attribute{
			{Name: "jar_path", Type: schema.String, Description: "jar to run, as the task sees it; relative to work_dir, or in local/"},
			{Name: "class", Type: schema.String, Description: "class to run: of class_path, or of the jar instead of its main class"},
			{Name: "class_path", Type: schema.String, Description: "where classes are looked for, separated by :"},
			{Name: "jvm_options", Type: schema.ListString, Description: "options of the JVM itself, as -Xmx128m"},
			{Name: "args", Type: schema.ListString, Description: "arguments of the program"},
		}, isolationSchema()...)},
	}
}

// jvmCheck is the interval at which the agent's PATH is checked for another JVM. A
// check costs a few system calls; only a new JVM is run.
const jvmCheck = 30 * time.Second

// Fingerprint implements driver.Driver. A JVM needs 100 ms or more to print its
// version, so an unknown JVM is reported when it has done so.
func (d *Java) Fingerprint(ctx context.Context) (<-chan driver.Fingerprint, error) {
	out := make(chan driver.Fingerprint)
	go func() {
		defer close(out)
		tick := time.NewTicker(jvmCheck)
		defer tick.Stop()
		_, every := supervisor.HangLimits()
		answers := time.NewTicker(every)
		defer answers.Stop()
		var last, found driver.Fingerprint // found is without the supervisor's health
		show := func() {
			f := found
			if err := d.Answering(ctx); err != nil && f.Health == driver.HealthHealthy {
				f.Health, f.HealthDescription = driver.HealthUnhealthy, err.Error()
			}
			if f.Health == last.Health && f.HealthDescription == last.HealthDescription && maps.Equal(f.Attributes, last.Attributes) {
				return
			}
			select {
			case out <- f:
				last = f
			case <-ctx.Done():
			}
		}
		var changed <-chan struct{}
		for look := true; ctx.Err() == nil; {
			if look {
				_, changed = d.agent.Get()
				d.look(ctx, func(f driver.Fingerprint) { found = f; show() })
			}
			select {
			case <-changed:
				look = true
			case <-tick.C:
				look = true
			case <-answers.C:
				look = false
				show()
			case <-ctx.Done():
			}
		}
	}()
	return out, nil
}

// look tells the current fingerprint, without regard to the supervisor.
func (d *Java) look(ctx context.Context, tell func(driver.Fingerprint)) {
	undetected := func(why string) driver.Fingerprint {
		return driver.Fingerprint{Health: driver.HealthUndetected, HealthDescription: why}
	}
	if why := unavailable(); why != "" {
		tell(undetected(why))
		return
	}
	v, err := d.jvms.known()
	if errors.Is(err, errAskJVM) {
		tell(undetected(err.Error()))
		v, err = d.jvms.find(ctx)
	}
	if err != nil {
		tell(undetected(err.Error()))
		return
	}
	tell(driver.Fingerprint{
		Attributes: map[string]string{
			"driver.java": "1", "driver.java.version": v.Version, "driver.java.runtime": v.Runtime, "driver.java.vm": v.VM,
		},
		Health: driver.HealthHealthy, HealthDescription: "Healthy",
	})
}

// StartTask implements driver.Driver.
func (d *Java) StartTask(ctx context.Context, task *driver.TaskConfig) (*driver.Handle, *driver.NetworkOverride, error) {
	ctx, ended, err := d.Starting(ctx, task.ID)
	if err != nil {
		return nil, nil, err
	}
	defer ended()
	if why := unavailable(); why != "" {
		return nil, nil, errdefs.FailedPreconditionf("start task %q: java cannot isolate tasks on this node: %s", task.ID, why)
	}
	var c javaTaskConfig
	if err := schema.Unmarshal(task.DriverConfig, &c); err != nil {
		return nil, nil, err
	}
	spec, err := d.spec(task, c.boxConfig, c.check)
	if err != nil {
		return nil, nil, err
	}
	v, err := d.jvms.find(ctx)
	if err != nil {
		return nil, nil, errdefs.FailedPreconditionf("start task %q: %w", task.ID, err)
	}
	if err := runJVM(&spec, task, c, v); err != nil {
		return nil, nil, errdefs.InvalidArgumentf("task %q: %w", task.Name, err)
	}
	handle, err := d.Start(ctx, spec)
	return handle, nil, err
}

// runJVM sets the task's command.
func runJVM(spec *supervisor.Spec, task *driver.TaskConfig, c javaTaskConfig, v *jvm) error {
	box := spec.Sandbox
	jar := ""
	if c.JarPath != "" {
		jar = jarPath(task.TaskDir, c)
		box.Needs = []string{path.Join("/", c.WorkDir, jar)}
		if path.IsAbs(jar) {
			box.Needs = []string{path.Clean(jar)}
		}
	}
	spec.Args = append([]string{"java"}, c.JVMOptions...)
	classPath := c.ClassPath
	if c.Class != "" && jar != "" {
		if classPath = jar; c.ClassPath != "" {
			classPath += ":" + c.ClassPath
		}
	}
	if classPath != "" {
		spec.Args = append(spec.Args, "-cp", classPath)
	}
	if c.Class != "" {
		spec.Args = append(spec.Args, c.Class)
	} else {
		spec.Args = append(spec.Args, "-jar", jar)
	}
	spec.Args = append(spec.Args, c.Args...)
	box.Command = v.command()
	box.Chroot = v.show(box.Chroot)
	return nil
}

// jarPath returns the jar's path for the JVM. As for commands, the prefix local/ may
// be omitted.
func jarPath(taskDir string, c javaTaskConfig) string {
	if path.IsAbs(c.JarPath) || c.WorkDir != "" || !filepath.IsLocal(c.JarPath) {
		return c.JarPath
	}
	// OpenRoot does not follow links out of the task's directory.
	root, err := os.OpenRoot(taskDir)
	if err != nil {
		return c.JarPath // the start reports what is wrong with the jar
	}
	defer root.Close()
	if _, err := root.Stat(c.JarPath); err == nil {
		return c.JarPath
	}
	if _, err := root.Stat(filepath.Join("local", c.JarPath)); err == nil {
		return path.Join("/local", c.JarPath)
	}
	return c.JarPath
}

// errAskJVM means that the version of the JVM is unknown and must be queried by
// running it.
var errAskJVM = errors.New("the version of the JVM is being queried")
