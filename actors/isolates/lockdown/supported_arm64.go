package lockdown

import "slices"

// supported leaves out what arm64 never had.
func supported(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "epoll_wait" })
}
