package ownercli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"sophia/hostd/ownercli"
)

var (
	advice = regexp.MustCompile(`WithHint\(|\.hint\(|\bwarn\(|\bfail\(|Mend:|empty :?=|"No `)
	named  = regexp.MustCompile(`\bsophia ([a-z]+)(?: ([a-z-]+))?`)
	// prose are words that follow the name in a sentence.
	prose = map[string]bool{"program": true, "command": true, "out": true}
)

// Every command that a hint anywhere in Sophia names exists.
func TestHints_NameCommandsThatExist(t *testing.T) {
	root := ownercli.Command(&ownercli.App{Getenv: func(string) string { return "" }})
	sub := func(c *cobra.Command, name string) *cobra.Command {
		for _, k := range c.Commands() {
			if k.Name() == name {
				return k
			}
		}
		return nil
	}
	found := 0
	for _, top := range []string{"actors", "cmd", "hostd", "mcp", "messages", "store"} {
		err := filepath.WalkDir(filepath.Join("..", "..", top), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				if !advice.MatchString(line) {
					continue
				}
				for _, m := range named.FindAllStringSubmatch(line, -1) {
					if prose[m[1]] {
						continue
					}
					found++
					noun := sub(root, m[1])
					if noun == nil || noun.HasSubCommands() && sub(noun, m[2]) == nil {
						t.Errorf("%s names %q, which does not exist:\n%s", path, m[0], line)
					}
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if found < 30 {
		t.Errorf("only %d hints were found: is the search still right?", found)
	}
}
