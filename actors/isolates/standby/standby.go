package standby

import (
	"time"

	"golang.org/x/sys/unix"
)

// soon is how long after a process has said that it is ready a frame comes from
// who waited for it.
const soon = 5 * time.Millisecond

// Spare reports that nobody waits for this process: nothing comes from the daemon,
// on fd, for a moment. The end of fd is something; so is an fd that can't be polled.
func Spare(fd int) bool {
	until := time.Now().Add(soon)
	for {
		left := unix.NsecToTimespec(max(0, int64(time.Until(until))))
		n, err := unix.Ppoll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, &left, nil)
		if err != unix.EINTR { // the runtime's own signals
			return n == 0 && err == nil
		}
	}
}
