package typecheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Find finds the compiler: beside the programs (dir), on PATH, or in the folders
// given, each of which may hold the npm package @typescript/native-preview. The
// program that the package starts is used, not its JavaScript launcher. "" is
// none.
func Find(dir string, packages ...string) string {
	if p := filepath.Join(dir, "tsgo"); runs(p) {
		return p
	}
	for _, folder := range packages {
		if p := inside(folder); p != "" {
			return p
		}
	}
	onPath, err := exec.LookPath("tsgo")
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(onPath)
	if err != nil {
		return ""
	}
	// …/node_modules/@typescript/native-preview/bin/tsgo is the launcher.
	for folder := filepath.Dir(real); folder != "/" && folder != "."; folder = filepath.Dir(folder) {
		if filepath.Base(folder) == "node_modules" {
			return inside(filepath.Dir(folder))
		}
	}
	if isELF(real) {
		return real
	}
	return ""
}

func inside(folder string) string {
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	for _, pattern := range []string{"node_modules/@typescript/", "node_modules/@typescript/native-preview/node_modules/@typescript/"} {
		if p := filepath.Join(folder, pattern, "native-preview-"+runtime.GOOS+"-"+arch, "lib", "tsgo"); runs(p) {
			return p
		}
	}
	return ""
}

func runs(p string) bool {
	info, err := os.Stat(p)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func isELF(p string) bool {
	f, err := os.Open(p)
	if err != nil {
		return false
	}
	defer f.Close()
	magic := make([]byte, 4)
	_, err = f.Read(magic)
	return err == nil && string(magic) == "\x7fELF"
}
