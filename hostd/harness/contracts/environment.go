package contracts

import (
	"maps"
	"slices"
	"strings"
)

// always never reaches a harness: controls of the dynamic loader and of shells
// and runtimes that a harness starts, whatever is Sophia's (credentials of
// other launches among it), and the markers of an enclosing agent session.
var always = []string{
	"LD_*", "GLIBC_TUNABLES", "GCONV_PATH", "GETCONF_DIR", "LOCPATH", "NLSPATH", "MALLOC_*", "RESOLV_HOST_CONF", "HOSTALIASES", "RES_OPTIONS",
	"BASH_ENV", "ENV", "BASH_FUNC_*", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND",
	"CLAUDECODE", "CLAUDE_CODE_CHILD_SESSION", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT", "CLAUDE_PID",
	"CODEX_SANDBOX*", "CODEX_THREAD_ID", "CODEX_MANAGED_*", "AI_AGENT",
	"NOTIFY_SOCKET", "WATCHDOG_*", "LISTEN_*", "INVOCATION_ID", "JOURNAL_STREAM", "CREDENTIALS_DIRECTORY", "MANAGERPID", "SYSTEMD_EXEC_PID",
}

// isolatedKeeps is all that an isolated launch inherits: a place to find
// programs, who the user is, language, time zone, terminal, and the way to the
// network. An ambient API key would be a second credential.
var isolatedKeeps = []string{
	"PATH", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TZDIR", "TERM", "COLORTERM", "TERMINFO", "TERMINFO_DIRS",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
}

// DropEnvAlways is what no setting can bring back.
func (c Contract) DropEnvAlways() []string { return always }

// Scrub filters an inherited environment ("NAME=value") for a harness. The
// result is sorted by name and has each name once, the last value given.
func (c Contract) Scrub(env []string, isolated bool) map[string]string {
	out := map[string]string{}
	for _, e := range env {
		name, value, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.ContainsRune(e, 0) {
			continue
		}
		switch {
		case dropped(name, always), dropped(name, c.DropEnv), name == c.HomeVar, sophias(name, value):
			delete(out, name)
		case isolated && !dropped(name, isolatedKeeps):
		default:
			out[name] = value
		}
	}
	return out
}

// sophias recognizes what is shaped like a credential of Sophia's: by name,
// and by the value of a variable that somebody gave another name.
func sophias(name, value string) bool {
	return strings.Contains(strings.ToUpper(name), "SOPHIA") || strings.HasPrefix(value, "sophia_")
}

// dropped matches exact names and prefixes ending in *.
func dropped(name string, patterns []string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if prefix, ok := strings.CutSuffix(p, "*"); ok {
			return strings.HasPrefix(name, prefix)
		}
		return name == p
	})
}

// Environ is a map as os/exec wants it, sorted.
func Environ(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}
