// Package fakeharness is a program that misbehaves as told: a stand-in for a
// harness in tests of what a launch must survive. It is a small static
// executable, so a harness contract without special rules accepts it.
//
// It performs the steps on its command line (or, with none, those in the
// variable FAKEHARNESS, one a line), in order. $NAME is filled in from the
// environment:
//
//	--version        prints "fake-harness 1.0.0" and ends
//	print:TEXT       writes TEXT and a new line; \e is ESC, \n a new line
//	args, env, fds   prints the arguments, the environment, the open descriptors
//	tty              prints session, process group, terminal's size and foreground group
//	cwd              prints the working folder
//	flood:BYTES      writes BYTES bytes of numbered lines
//	query:SEQ        writes SEQ (as print), reads until a terminal answer's end, prints it quoted
//	echo             copies input to output until it ends or a line "end" comes
//	resized          waits for the terminal's next change of size and prints it
//	ignore-term      ignores SIGTERM, SIGHUP and SIGINT from here on
//	child:STEP;STEP  a child that does the steps, in the same session
//	setsid:STEP;…    a child in a session of its own
//	daemon:STEP;…    a grandchild in a session of its own whose parent has ended
//	scrubbed:STEP;…  as daemon, and without this environment and folder
//	hold:PATH        opens PATH and keeps it open
//	join:FOLDER      moves itself into the control group FOLDER
//	wait:PATH        waits until PATH exists
//	out:PATH         from here on prints into PATH
//	write:PATH       tries to create or open PATH for writing, and prints whether it could
//	list:FOLDER      prints the names in FOLDER, or why it could not
//	run:PATH ARG…    runs a program and prints how it ended and what it said
//	session          starts the MCP server of mcp.json in $FAKE_HOME and keeps its session open
//	mcp:PATH ARG…    starts a program with pipes for stdio and prints how it ended
//	now:PATH         writes the time, in nanoseconds since 1970, into a file
//	pid:PATH         writes its process id into a new file
//	sleep:SECONDS    waits
//	forever          waits for ever
//	exit:CODE        ends
//	kill:SIGNAL      sends itself a signal, by number
package fakeharness

import (
	"testing"

	"sophia/testkit/programs"
)

// Version is what --version prints.
const Version = "fake-harness 1.0.0"

// Build builds the program, once a test process, into a folder outside the
// temp folders and returns its path.
func Build(tb testing.TB) string {
	tb.Helper()
	return programs.Package(tb, "sophia/testkit/fakeharness/fake-harness")
}
