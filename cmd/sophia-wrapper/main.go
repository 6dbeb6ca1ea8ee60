// Command sophia-wrapper is the MCP server that a harness starts: it fetches the
// launch's credential, proves it, and passes MCP between its standard input and
// output and the daemon.
//
//	sophia-wrapper --launch ID --socket PATH          of a managed launch
//	sophia-wrapper --url URL --bearer-file PATH       for a minted connection
//
// Exit status: 0 the client went away or the lease ended, 1 failed, 2 usage,
// 3 refused, 4 the daemon can't be reached.
package main

import (
	"os"

	"sophia/hostd/wrapper"
)

func main() { os.Exit(wrapper.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
