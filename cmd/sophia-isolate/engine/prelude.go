package engine

import (
	"embed"
	"encoding/binary"
	"hash/crc32"
	"strings"

	v8 "rogchap.com/v8go"
)

//go:embed prelude/*.js
var prelude embed.FS

var preludeFiles = []string{"core", "sophia", "absent", "console", "web", "url", "run"}

// compilePrelude reports whether the cache was of use. V8 itself refuses one that
// another version or other flags made, but tells texts apart by their length only.
func compilePrelude(iso *v8.Isolate, cache []byte) (program *v8.UnboundScript, cached bool, err error) {
	text, err := assemble()
	if err != nil {
		return nil, false, err
	}
	data := cacheOf(text, cache)
	if data == nil {
		program, err = iso.CompileUnboundScript(text, "prelude", v8.CompileOptions{})
		return program, false, err
	}
	given := &v8.CompilerCachedData{Bytes: data}
	program, err = iso.CompileUnboundScript(text, "prelude", v8.CompileOptions{CachedData: given})
	return program, !given.Rejected, err
}

// cacheOf is V8's part of a cache, nil when it was made of another text.
func cacheOf(text string, cache []byte) []byte {
	end := len(cache) - crc32.Size
	if end <= 0 || binary.LittleEndian.Uint32(cache[end:]) != checksum(text) {
		return nil
	}
	return cache[:end]
}

func checksum(text string) uint32 { return crc32.ChecksumIEEE([]byte(text)) }

// assemble puts the prelude's files into one function.
func assemble() (string, error) {
	var b strings.Builder
	b.WriteString("(function (host, limitsJSON) { 'use strict'; const limits = JSON.parse(limitsJSON);\n")
	for _, name := range preludeFiles {
		text, err := prelude.ReadFile("prelude/" + name + ".js")
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	b.WriteString("\nhost.hook(); return { offer, settle, fire, start }; })")
	return b.String(), nil
}
