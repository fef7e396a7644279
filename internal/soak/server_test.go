//go:build linux

package soak

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/agenthost/agenthost/host/kv/badgerkv"
	"github.com/agenthost/agenthost/internal/longtest"
)

// deviceVariable is the environment variable that makes the test of a server mount a small
// device: a process with mounts of its own may.
const deviceVariable = "AGENTHOST_SOAK_DEVICE"

// programVariable is the environment variable with the path of a built agenthost.
const programVariable = "AGENTHOST_SOAK_PROGRAM"

// deviceBytes is the size of the device: of memory, as far as it is filled.
const deviceBytes = badgerkv.DefaultMinFree + 256<<20

// noMount is the text of the child where no device can be mounted.
const noMount = "no device can be mounted"

// The server's faults include a device that is full. The test runs in a process with mounts
// of its own, which needs no privilege where a user may have a namespace.
func TestSoakOfAServer(t *testing.T) {
	t.Parallel() // it waits most of its time
	if device := os.Getenv(deviceVariable); device != "" {
		if err := syscall.Mount("tmpfs", device, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", deviceBytes)); err != nil {
			t.Fatalf(noMount+": %v", err)
		}
		soakServer(t, device)
		return
	}
	child := exec.Command(os.Args[0], "-test.run=^TestSoakOfAServer$", "-test.v", "-test.timeout=40m")
	child.Env = append(os.Environ(), deviceVariable+"="+t.TempDir())
	child.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := child.CombinedOutput()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) || bytes.Contains(out, []byte(noMount)) {
		t.Skipf("wants a user namespace with a mount (user.max_user_namespaces, kernel.unprivileged_userns_clone): %v", err)
	}
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}

// soakServer drives a server whose data is on a device.
func soakServer(t *testing.T, device string) {
	dir := t.TempDir()
	program := os.Getenv(programVariable)
	if program == "" {
		program = filepath.Join(dir, "agenthost")
		build := exec.Command("go", "build", "-ldflags=-w", "-o", program, "../../cmd/agenthost") // tests run in the directory of their package
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	project := filepath.Join(dir, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	opts := &ServerOptions{
		Program: program, Dir: project, Data: filepath.Join(device, "data"), Device: device, Clients: 8,
		Duration: time.Duration(longtest.Rounds(4, 60)) * time.Second, Every: time.Second, Logf: t.Logf,
	}
	if opts.Seed = uint64(number(t, seedVariable)); opts.Seed == 0 {
		opts.Seed = uint64(time.Now().UnixNano())
	}
	if text := os.Getenv(timeVariable); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			t.Fatalf("%s=%q is not a duration", timeVariable, text)
		}
		opts.Duration = d
	}
	t.Logf("the faults' seed is %d: set %s to have them again", opts.Seed, seedVariable)
	figures, err := RunServer(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(figures)
	for _, line := range figures.Broken {
		t.Error(line)
	}
	if figures.Acked < leastTurns || figures.Crashes == 0 {
		t.Errorf("%d turns were completed and the plugin crashed %d times: too few to say anything", figures.Acked, figures.Crashes)
	}
}
