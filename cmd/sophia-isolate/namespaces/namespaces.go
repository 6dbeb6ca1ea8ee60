package namespaces

/*
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void put(const char *path, const char *text) {
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	ssize_t written = write(fd, text, strlen(text));
	(void)written; // an empty map is found later
	close(fd);
}

// user_namespaces(7): a process may map its own ids, one each, once setgroups is
// denied.
__attribute__((constructor)) static void own_namespaces(void) {
	char uid[32], gid[32];
	snprintf(uid, sizeof uid, "%u %u 1", getuid(), getuid());
	snprintf(gid, sizeof gid, "%u %u 1", getgid(), getgid());
	if (unshare(CLONE_NEWUSER | CLONE_NEWNET | CLONE_NEWIPC) != 0)
		return;
	put("/proc/self/setgroups", "deny");
	put("/proc/self/uid_map", uid);
	put("/proc/self/gid_map", gid);
}
*/
import "C"
