// Copyright (c) The Drover Authors
// SPDX-License-Identifier: MPL-2.0

//go:build amd64 || arm64

package nvml

import (
	"bytes"
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"

	"github.com/drover-project/drover/sdk/errdefs"
)

// DefaultPath is the name of the library. The dynamic linker finds it.
const DefaultPath = "libnvidia-ml.so.1"

// library calls functions by their symbols, each of which is looked up once.
type library struct {
	handle uintptr

	mu      sync.Mutex
	symbols map[string]uintptr // 0 means that the library does not have the symbol
	events  uintptr            // the event set on which WaitXid waits
	closed  bool
}

// Open opens the library at path, or at DefaultPath if path is empty, and
// initializes it. It returns NotFound if there is no library or no driver is loaded.
func Open(path string) (Library, error) {
	if path == "" {
		path = DefaultPath
	}
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, errdefs.NotFoundf("open %s: %w", path, err)
	}
	l := &library{handle: handle, symbols: map[string]uintptr{}}
	if err := l.call("nvmlInit_v2"); err != nil {
		_ = purego.Dlclose(handle) // the error of the initialization is more useful
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return l, nil
}

// call calls a function that returns a code. Arguments are numbers, handles of the
// library, and pointers that are converted in the call expression itself, so that
// the directive keeps their memory in place until the function returns.
//
//go:uintptrescapes
func (l *library) call(function string, args ...uintptr) error {
	symbol := l.symbol(function)
	if symbol == 0 {
		return errdefs.Unimplementedf("%s: the installed NVIDIA driver has no such function; a newer one may", function)
	}
	r, _, _ := purego.SyscallN(symbol, args...)
	if c := code(uint32(r)); c != success {
		return errorOf(function, c, l.text(c))
	}
	return nil
}

func (l *library) symbol(name string) uintptr {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, known := l.symbols[name]
	if !known {
		s, _ = purego.Dlsym(l.handle, name) // 0 if it does not exist
		l.symbols[name] = s
	}
	return s
}

// text returns the library's description of a code.
func (l *library) text(c code) string {
	symbol := l.symbol("nvmlErrorString")
	if symbol == 0 {
		return "error"
	}
	r, _, _ := purego.SyscallN(symbol, uintptr(c))
	return goString(r)
}

// goString copies a C string that is never freed.
func goString(at uintptr) string {
	if at == 0 {
		return ""
	}
	// The address points to C memory, which does not move. Converting it through its own
	// address avoids a warning of go vet.
	p := *(*unsafe.Pointer)(unsafe.Pointer(&at))
	const most = 256
	text := unsafe.Slice((*byte)(p), most)
	for i, b := range text {
		if b == 0 {
			return string(text[:i])
		}
	}
	return string(text)
}

// textSize is the largest buffer size that nvml.h gives for any text.
const textSize = 96

// read calls a function that writes a text into a buffer. If device is not 0 it is
// passed as the first argument.
func (l *library) read(function string, device uintptr) (string, error) {
	var buf [textSize]byte
	var err error
	if device == 0 {
		err = l.call(function, uintptr(unsafe.Pointer(&buf[0])), textSize)
	} else {
		err = l.call(function, device, uintptr(unsafe.Pointer(&buf[0])), textSize)
	}
	text, _, _ := bytes.Cut(buf[:], []byte{0})
	return string(text), err
}

func (l *library) DriverVersion() (string, error) { return l.read("nvmlSystemGetDriverVersion", 0) }

func (l *library) CUDAVersion() (float64, error) {
	var v int32
	if err := l.call("nvmlSystemGetCudaDriverVersion_v2", uintptr(unsafe.Pointer(&v))); err != nil {
		return 0, err
	}
	return float64(v/1000) + float64(v%1000/10)/10, nil
}

func (l *library) Devices() ([]Device, error) {
	var n uint32
	if err := l.call("nvmlDeviceGetCount_v2", uintptr(unsafe.Pointer(&n))); err != nil {
		return nil, err
	}
	out := make([]Device, 0, n)
	for i := range n {
		d := &gpu{lib: l}
		err := l.call("nvmlDeviceGetHandleByIndex_v2", uintptr(i), uintptr(unsafe.Pointer(&d.handle)))
		if errdefs.IsPermissionDenied(err) {
			continue // the device belongs to another container or user
		}
		if err != nil {
			d.lost = fmt.Errorf("GPU %d: %w", i, err)
		}
		out = append(out, d)
	}
	return out, nil
}

func (l *library) Close() error {
	l.mu.Lock()
	events, closed := l.events, l.closed
	l.events, l.closed = 0, true
	l.mu.Unlock()
	if closed {
		return nil
	}
	if events != 0 {
		_ = l.call("nvmlEventSetFree", events) // it cannot be handled here
	}
	err := l.call("nvmlShutdown")
	// The library stays open, because its threads keep running after nvmlShutdown.
	return err
}

// eventData is nvmlEventData_t.
type eventData struct {
	device       uintptr
	kind, data   uint64
	gpu, compute uint32
}

// eventXid is nvmlEventTypeXidCriticalError.
const eventXid = 0x8

func (l *library) WaitXid(timeoutMS uint32) (Xid, bool, error) {
	set, err := l.eventSet()
	if err != nil {
		return Xid{}, false, err
	}
	var data eventData
	err = l.call("nvmlEventSetWait_v2", set, uintptr(unsafe.Pointer(&data)), uintptr(timeoutMS))
	if errdefs.IsDeadlineExceeded(err) {
		return Xid{}, false, nil
	}
	if err != nil {
		return Xid{}, false, err
	}
	if data.kind != eventXid {
		return Xid{}, false, nil
	}
	uuid, err := (&gpu{lib: l, handle: data.device}).UUID()
	if err != nil {
		return Xid{}, false, err
	}
	return Xid{UUID: uuid, Number: data.data}, true, nil
}

// eventSet creates the event set on first use and registers every GPU that supports
// events.
func (l *library) eventSet() (uintptr, error) {
	l.mu.Lock()
	set, closed := l.events, l.closed
	l.mu.Unlock()
	if closed {
		return 0, errdefs.FailedPreconditionf("the library is closed")
	}
	if set != 0 {
		return set, nil
	}
	if err := l.call("nvmlEventSetCreate", uintptr(unsafe.Pointer(&set))); err != nil {
		return 0, err
	}
	devices, err := l.Devices()
	if err != nil {
		return 0, err
	}
	reporting := 0
	for _, d := range devices {
		if g := d.(*gpu); g.lost == nil && l.call("nvmlDeviceRegisterEvents", g.handle, eventXid, set) == nil {
			reporting++
		}
	}
	if reporting == 0 {
		_ = l.call("nvmlEventSetFree", set)
		return 0, errdefs.Unimplementedf("no GPU here reports errors")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = set
	return set, nil
}
