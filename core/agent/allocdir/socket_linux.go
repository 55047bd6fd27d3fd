// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

package allocdir

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// backlog is how many connections to a socket may wait to be accepted.
const backlog = 64

// ListenSecrets makes a socket in a task's secrets folder, replacing an existing one, and
// listens on it without blocking. Whoever may enter the folder may connect. The socket is
// made through the open folder, because a path may be too long for a socket, and because a
// task may put links into its folder.
func (d Dir) ListenSecrets(task, name string) (*os.File, error) {
	if err := checkTaskName(task); err != nil {
		return nil, err
	}
	folder, err := d.openFolder(task, SecretsDir)
	if err != nil {
		return nil, fmt.Errorf("open the secrets folder of task %q: %w", task, err)
	}
	defer folder.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("make a socket: %w", err)
	}
	if err := listenIn(fd, int(folder.Fd()), name); err != nil {
		_ = unix.Close(fd) // not passed to anybody yet
		return nil, fmt.Errorf("make the socket %s of task %q: %w", name, task, err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func listenIn(fd, folder int, name string) (err error) {
	temp := ".drover-" + rand.Text()
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(folder) + "/" + temp}); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unix.Unlinkat(folder, temp, 0))
		}
	}()
	if err := unix.Listen(fd, backlog); err != nil {
		return err
	}
	// The file is opened without following links and is a socket of ours: only then its
	// mode is changed.
	file, err := unix.Openat(folder, temp, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(file)
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || st.Nlink != 1 || int(st.Uid) != os.Geteuid() {
		return errors.New("something else was put in its place")
	}
	if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(file), 0o666); err != nil {
		return err
	}
	return unix.Renameat(folder, temp, folder, name)
}
