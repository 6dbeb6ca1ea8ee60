package secret

import (
	"os"
	"syscall"
)

// NoCores keeps this process's memory, and that of its children, out of core
// files: what a credential passed through on its way into a Secret is still in
// buffers. A limit of 0 is enough for the kernel's own core files only; a
// program that core_pattern pipes cores into is started all the same, and reads
// no memory because coredump_filter, core(5), leaves none in.
func NoCores() error {
	if err := syscall.Setrlimit(syscall.RLIMIT_CORE, &syscall.Rlimit{}); err != nil {
		return err
	}
	// A kernel without the file writes no core files.
	if err := os.WriteFile("/proc/self/coredump_filter", []byte("0"), 0); err != nil && !os.IsNotExist(err) {
		return err
	}
	return nil
}
