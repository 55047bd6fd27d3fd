// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build linux

package driverexec_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plugins/driver-exec/driverexec"
	driver "github.com/drover-project/drover/sdk/driver/v1"
)

// prints returns the fingerprints of a java driver with the state directory dir.
func prints(t *testing.T, dir string) (*driverexec.Java, <-chan driver.Fingerprint) {
	t.Helper()
	needIsolation(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	d := driverexec.NewJava(dir)
	ch, err := d.Fingerprint(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		for range ch { // until it is closed
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, ch
}

// again makes the driver check again.
func again(t *testing.T, d *driverexec.Java) {
	t.Helper()
	if err := d.SetConfig(t.Context(), []byte("{}")); err != nil {
		t.Fatal(err)
	}
}

func TestWithoutAJVMTheDriverIsUndetectedAndSaysWhy(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	d, ch := prints(t, t.TempDir())
	f := <-ch
	if f.Health != driver.HealthUndetected || len(f.Attributes) != 0 || !strings.Contains(f.HealthDescription, empty) {
		t.Errorf("fingerprint %+v", f)
	}
	_, _, err := d.StartTask(t.Context(), &driver.TaskConfig{
		ID: "a", Name: "a", AllocDir: empty, TaskDir: empty, DriverConfig: []byte(`{"class": "Probe"}`), Logs: driver.LogConfig{Disabled: true},
	})
	if err == nil || !strings.Contains(err.Error(), "install a Java runtime") {
		t.Errorf("start: %v", err)
	}
}

func TestTheFingerprintIsWhatTheJVMSaysOfItself(t *testing.T) {
	needJava(t)
	_, ch := prints(t, t.TempDir())
	if f := <-ch; f.Health != driver.HealthUndetected {
		t.Errorf("before the JVM answered: %+v", f)
	}
	f := <-ch
	out, err := exec.Command("java", "-version").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(out), "\n")
	a := f.Attributes
	if f.Health != driver.HealthHealthy || a["driver.java"] != "1" || len(lines) < 3 || !strings.Contains(lines[0], `"`+a["driver.java.version"]+`"`) ||
		a["driver.java.runtime"] != lines[1] || a["driver.java.vm"] != lines[2] {
		t.Errorf("%+v of %q", f, lines)
	}
}

// scriptedJVM creates a program java in PATH that counts its runs.
func scriptedJVM(t *testing.T, answer string) (program string, runs func() int) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "java")
	writeJVM(t, program, answer)
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return program, func() int {
		raw, _ := os.ReadFile(program + ".runs") // it does not exist before the first run
		return strings.Count(string(raw), "run\n")
	}
}

func writeJVM(t *testing.T, program, answer string) {
	t.Helper()
	body := "#!/bin/sh\necho run >> " + program + ".runs\n" + answer + "\n"
	if err := os.WriteFile(program, []byte(body), 0o755); err != nil {
		t.Fatal(err)
	}
}

const eight = `cat >&2 <<'END'
Picked up _JAVA_OPTIONS: -Xmx1g
Property settings:
    java.home = /opt/jdk8/jre
    java.version = 1.8.0_412

java version "1.8.0_412"
Java(TM) SE Runtime Environment (build 1.8.0_412-b08)
Java HotSpot(TM) 64-Bit Server VM (build 25.412-b08, mixed mode)
END`

func TestAJVMIsRunOncePerInstallationAndNotPerProcessOfThePlugin(t *testing.T) {
	program, runs := scriptedJVM(t, eight)
	state := t.TempDir()
	d, ch := prints(t, state)
	<-ch // the fingerprint while the JVM is queried
	f := <-ch
	want := "Java HotSpot(TM) 64-Bit Server VM (build 25.412-b08, mixed mode)"
	if f.Attributes["driver.java.version"] != "1.8.0_412" || f.Attributes["driver.java.vm"] != want {
		t.Fatalf("%+v", f)
	}
	_, next := prints(t, state)
	if f := <-next; f.Attributes["driver.java.vm"] != want || runs() != 1 {
		t.Fatalf("the next process: %+v after %d runs", f, runs())
	}
	writeJVM(t, program, strings.ReplaceAll(eight, "1.8.0_412", "21.0.1"))
	again(t, d)
	<-ch
	if f := <-ch; f.Attributes["driver.java.version"] != "21.0.1" || runs() != 2 {
		t.Fatalf("after an upgrade: %+v after %d runs", f, runs())
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", filepath.Dir(program))
	again(t, d)
	if f := <-ch; f.Health != driver.HealthUndetected || len(f.Attributes) != 0 || runs() != 2 {
		t.Fatalf("after it was removed: %+v after %d runs", f, runs())
	}
}

func TestAJVMThatDoesNotWorkIsUndetectedAndNotRunAgainAndAgain(t *testing.T) {
	for name, answer := range map[string]string{"broken": "echo 'no libjvm.so' >&2; exit 1", "garbage": "echo hello"} {
		t.Run(name, func(t *testing.T) {
			_, runs := scriptedJVM(t, answer)
			d, ch := prints(t, t.TempDir())
			<-ch // the fingerprint while the JVM is queried
			says := map[string]string{"broken": "no libjvm.so", "garbage": "hello"}[name]
			if f := <-ch; f.Health != driver.HealthUndetected || !strings.Contains(f.HealthDescription, says) {
				t.Errorf("%+v", f)
			}
			for range 3 {
				_, _, err := d.StartTask(t.Context(), &driver.TaskConfig{
					ID: "a", Name: "a", AllocDir: "/tmp", TaskDir: "/tmp", DriverConfig: []byte(`{"class": "Probe"}`), Logs: driver.LogConfig{Disabled: true},
				})
				if err == nil || !strings.Contains(err.Error(), says) {
					t.Errorf("start: %v", err)
				}
			}
			if runs() != 1 {
				t.Errorf("it was run %d times", runs())
			}
		})
	}
}
