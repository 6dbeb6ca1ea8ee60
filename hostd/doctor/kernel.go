package doctor

// Kernel is what the running kernel gives, found by trying.
type Kernel struct {
	Release      string
	PeerPidfd    bool // SO_PEERPIDFD
	PidfdInfo    bool // PIDFD_GET_INFO
	PassRights   bool // SO_PASSRIGHTS
	Openat2      bool
	MDWE         bool // memory-deny-write-execute
	Landlock     int  // ABI version, 0: none
	Seccomp      bool // filters
	ReadLeases   bool // F_SETLEASE where harnesses are kept
	LeaseProblem string
}

// landlockFull is the ABI that has all that the isolates use: it adds scopes of
// signals and abstract sockets (Linux 6.12).
const landlockFull = 6

// KernelFeatures judges what the kernel lacks by what that costs.
func KernelFeatures(k Kernel) []Check {
	feature := func(name string, there bool, since, cost string) Check {
		if there {
			return ok("kernel."+name, "there")
		}
		return warn("kernel."+name, "Linux "+since+" has it; this is "+k.Release+".", "missing: %s", cost)
	}
	out := []Check{
		feature("so_peerpidfd", k.PeerPidfd, "6.5", "whoever connects is bound to its process by a held /proc folder instead"),
		feature("pidfd_get_info", k.PidfdInfo, "6.13", "a wrapper's unit is read from /proc alone, not asked of the kernel too"),
		feature("so_passrights", k.PassRights, "6.16", "descriptors sent to a relay are thrown away after they arrived, not before"),
		feature("openat2", k.Openat2, "5.6", "overlays are walked one folder at a time, which is slower"),
		feature("mdwe", k.MDWE, "6.3", "isolates rely on their system-call filter alone against new executable memory"),
		feature("seccomp", k.Seccomp, "3.5 with CONFIG_SECCOMP_FILTER", "isolates can make every system call"),
	}
	switch {
	case k.Landlock == 0:
		out = append(out, warn("kernel.landlock", "Linux 5.13 has it, if it is built in and named in the lsm= boot parameter; this is "+k.Release+".",
			"missing: isolates rely on their system-call filter alone against files and the network"))
	case k.Landlock < landlockFull:
		out = append(out, warn("kernel.landlock", "Linux 6.12 has version 6; this is "+k.Release+".",
			"version %d: isolates' signals and abstract sockets are kept in by the system-call filter alone", k.Landlock))
	default:
		out = append(out, ok("kernel.landlock", "version %d", k.Landlock))
	}
	if k.ReadLeases {
		return append(out, ok("kernel.read_leases", "there"))
	}
	return append(out, warn("kernel.read_leases", "Keep Sophia's data on a local file system such as ext4, xfs or btrfs.",
		"missing where harnesses are kept (%s): a harness that is written between its hashing and its start is found by comparing, not kept from it", k.LeaseProblem))
}
