// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// findings is the file in its working directory in which a hostile plugin records its
// attempts: the error of each, or "" if it succeeded.
const findings = "findings.json"

// attack tries what a collector must not be able to do.
func attack() {
	tried := map[string]string{}
	try := func(what string, err error) {
		tried[what] = ""
		if err != nil {
			tried[what] = err.Error()
		}
	}
	read := func(path string) error {
		_, err := os.ReadFile(path)
		return err
	}
	try("read", read(os.Getenv("HOSTILE_SECRET")))
	try("list", func() error { _, err := os.ReadDir(os.Getenv("HOSTILE_DIR")); return err }())
	try("write", os.WriteFile(os.Getenv("HOSTILE_PUBLIC")+"/mine", nil, 0o600))
	try("network", func() error {
		c, err := net.Dial("tcp", os.Getenv("HOSTILE_ADDRESS"))
		if err == nil {
			c.Close()
		}
		return err
	}())
	agent := os.Getppid()
	try("signal", syscall.Kill(agent, 0))
	try("environment", read("/proc/"+strconv.Itoa(agent)+"/environ"))
	try("memory", func() error {
		f, err := os.Open("/proc/" + strconv.Itoa(agent) + "/mem")
		if err == nil {
			f.Close()
		}
		return err
	}())
	try("trace", syscall.PtraceAttach(agent))
	try("mount", syscall.Mount("none", ".", "tmpfs", 0, ""))
	try("namespace", syscall.Unshare(syscall.CLONE_NEWUSER))
	try("own folder", os.WriteFile("own", nil, 0o600))

	left := exec.Command("/bin/sh", "-c", "while :; do sleep 1; done")
	left.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	try("leave", left.Start())
	if left.Process != nil {
		tried["pid"] = strconv.Itoa(left.Process.Pid)
	}
	sockets, opened := 0, []int{}
	for range 10_000 {
		fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
		if err != nil {
			break
		}
		sockets, opened = sockets+1, append(opened, fd)
	}
	for _, fd := range opened {
		syscall.Close(fd)
	}
	tried["sockets"] = strconv.Itoa(sockets)
	body, _ := json.Marshal(tried)
	if err := os.WriteFile(findings, body, 0o600); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// fill writes 3 MiB into the state folder.
func fill() {
	for i := range 3 {
		if err := os.WriteFile("full"+strconv.Itoa(i), make([]byte, 1<<20), 0o600); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
}

// impostor answers a handshake with the socket of another process.
func impostor() {
	fmt.Printf("1|1|unix|%s|grpc\n", os.Getenv("HOSTILE_SOCKET"))
	os.Stdout.Sync()
	select {}
}

// printAll prints to both outputs for a while after Serve has begun.
func printAll() {
	for range time.Tick(20 * time.Millisecond) {
		fmt.Println("a line that was printed \x1b[31m")
		fmt.Fprintln(os.Stderr, "a line of complaint")
		println("a line of the runtime")
	}
}
