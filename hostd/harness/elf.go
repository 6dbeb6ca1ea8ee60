package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"
	"math"
	"path"
	"runtime"
	"slices"
	"strings"

	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

// Bounds of what is read of a program. The kernel itself takes program
// headers up to 64 KiB; both harnesses have about ten and a dynamic section
// under 600 bytes.
const (
	maxProgs   = 512
	maxDynamic = 4096    // entries
	maxStrings = 1 << 20 // bytes of the dynamic string table
	maxInterp  = 4096    // PATH_MAX
)

// loaders are the standard program interpreters of each machine: glibc's and
// musl's.
var loaders = map[elf.Machine][]string{
	elf.EM_X86_64:  {"/lib64/ld-linux-x86-64.so.2", "/lib/ld-musl-x86_64.so.1"},
	elf.EM_AARCH64: {"/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-aarch64.so.1"},
}

// machine is the ELF machine of this program.
func machine() elf.Machine {
	switch runtime.GOARCH {
	case "amd64":
		return elf.EM_X86_64
	case "arm64":
		return elf.EM_AARCH64
	}
	return elf.EM_NONE
}

// Dynamic tags that send the loader's search elsewhere, beside those that
// debug/elf names (System V gABI and glibc's elf.h).
const (
	dtConfig   = elf.DynTag(0x6ffffefa)
	dtDepAudit = elf.DynTag(0x6ffffefb)
	dtAudit    = elf.DynTag(0x6ffffefc)
)

// checkELF reads what the kernel and the loader read: the file header, the
// program headers and the dynamic segment. Sections are ignored, because the
// kernel ignores them: a check by sections is passed by a file that has other
// ones, or none.
func checkELF(r io.ReaderAt, size int64, m elf.Machine, linking contracts.Linking) error {
	p, err := parseELF(r, size, m)
	if err != nil {
		return err
	}
	if linking == contracts.AnyLinking {
		return nil
	}
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		if p.has(tag) {
			return problem.New("managed_harness_library_path", "the program carries a library search path of its own (%v)", tag).
				WithHint("Use the vendor's own build.")
		}
	}
	for _, tag := range []elf.DynTag{dtAudit, dtDepAudit, dtConfig, elf.DT_AUXILIARY, elf.DT_FILTER} {
		if p.has(tag) {
			return problem.New("managed_harness_loader_audit", "the program asks the loader to load other code beside it (dynamic tag %#x)", uint64(tag)).
				WithHint("Use the vendor's own build.")
		}
	}
	switch linking {
	case contracts.Static:
		if p.interp != "" || p.has(elf.DT_NEEDED) {
			return problem.New("managed_harness_not_static", "the program is dynamically linked, its contract says static").
				WithHint("Use the vendor's static build.")
		}
	case contracts.SystemLoader:
		if p.interp != "" && !slices.Contains(loaders[m], p.interp) {
			return problem.New("managed_harness_foreign_interpreter", "the program is run by %q, which is not this system's loader", p.interp).
				WithValid(loaders[m]...)
		}
		if p.interp == "" && p.has(elf.DT_NEEDED) {
			return malformed("it needs libraries and names no loader")
		}
		for _, lib := range p.needed {
			// With a slash the loader takes it as a path and searches nothing;
			// with a dollar sign it is expanded.
			if lib == "" || strings.ContainsAny(lib, "/$") || path.Clean(lib) != lib {
				return problem.New("managed_harness_library_path", "the program needs the library %q by path", lib).
					WithHint("Use the vendor's own build.")
			}
		}
	}
	return nil
}

// program is what the checks need of an ELF file.
type program struct {
	progs  []elf.Prog64
	interp string
	dyn    []elf.Dyn64
	needed []string
}

func (p *program) has(tag elf.DynTag) bool {
	return slices.ContainsFunc(p.dyn, func(d elf.Dyn64) bool { return elf.DynTag(d.Tag) == tag })
}

func malformed(format string, args ...any) error {
	return problem.New("managed_harness_not_elf", "the file is not a sane program: "+format, args...).
		WithHint("It may have been cut off while it was copied: install it again.")
}

// parseELF reads a program of machine m. It returns errors for whatever the
// kernel would refuse or map otherwise than the file says; it never panics and
// reads at most a few megabytes.
func parseELF(r io.ReaderAt, size int64, m elf.Machine) (*program, error) {
	var h elf.Header64
	if err := readStruct(r, size, 0, &h); err != nil {
		return nil, malformed("it is shorter than an ELF header")
	}
	switch {
	case string(h.Ident[:4]) != elf.ELFMAG:
		return nil, malformed("it is not an ELF file")
	case elf.Class(h.Ident[elf.EI_CLASS]) != elf.ELFCLASS64, elf.Data(h.Ident[elf.EI_DATA]) != elf.ELFDATA2LSB, elf.Machine(h.Machine) != m:
		return nil, problem.New("managed_harness_wrong_machine", "the program is for %v (%v, %v), this machine is %v",
			elf.Machine(h.Machine), elf.Class(h.Ident[elf.EI_CLASS]), elf.Data(h.Ident[elf.EI_DATA]), m).
			WithHint("Install the harness for this machine.")
	case elf.Version(h.Ident[elf.EI_VERSION]) != elf.EV_CURRENT, elf.Version(h.Version) != elf.EV_CURRENT:
		return nil, malformed("unknown ELF version")
	case elf.Type(h.Type) != elf.ET_EXEC && elf.Type(h.Type) != elf.ET_DYN:
		return nil, malformed("it is of type %v", elf.Type(h.Type))
	case h.Phentsize != 56: // sizeof(Elf64_Phdr)
		return nil, malformed("its program headers have %d bytes", h.Phentsize)
	case h.Phnum == 0 || h.Phnum > maxProgs:
		return nil, malformed("it has %d program headers", h.Phnum)
	}
	p := &program{progs: make([]elf.Prog64, h.Phnum)}
	if h.Phoff > math.MaxInt64 {
		return nil, malformed("its program headers are outside the file")
	}
	if err := readStruct(r, size, int64(h.Phoff), p.progs); err != nil {
		return nil, malformed("its program headers are outside the file")
	}
	var interp, dynamic *elf.Prog64
	entered := false
	for i := range p.progs {
		s := &p.progs[i]
		t := elf.ProgType(s.Type)
		if t == elf.PT_LOAD || t == elf.PT_INTERP || t == elf.PT_DYNAMIC {
			if s.Off > uint64(size) || s.Filesz > uint64(size)-s.Off {
				return nil, malformed("a segment ends after the file (%v)", t)
			}
		}
		switch t {
		case elf.PT_LOAD:
			if s.Filesz > s.Memsz || s.Vaddr+s.Memsz < s.Vaddr {
				return nil, malformed("a segment has an impossible size")
			}
			if elf.ProgFlag(s.Flags)&elf.PF_X != 0 && h.Entry >= s.Vaddr && h.Entry-s.Vaddr < s.Filesz {
				entered = true
			}
		case elf.PT_INTERP:
			if interp != nil {
				return nil, malformed("it names two loaders")
			}
			interp = s
		case elf.PT_DYNAMIC:
			if dynamic != nil {
				return nil, malformed("it has two dynamic segments")
			}
			dynamic = s
		}
	}
	if !entered {
		return nil, malformed("it starts outside its code")
	}
	if interp != nil {
		if interp.Filesz < 2 || interp.Filesz > maxInterp {
			return nil, malformed("its loader's name has %d bytes", interp.Filesz)
		}
		b := make([]byte, interp.Filesz)
		if _, err := r.ReadAt(b, int64(interp.Off)); err != nil {
			return nil, malformed("its loader's name can't be read")
		}
		name, _, ok := bytes.Cut(b, []byte{0})
		if !ok || len(name) == 0 {
			return nil, malformed("its loader's name does not end")
		}
		p.interp = string(name)
	}
	if dynamic != nil {
		if err := p.readDynamic(r, size, dynamic); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// readDynamic reads the dynamic segment where the loader finds it: at its
// address. That must be the place in the file that its header names as well.
func (p *program) readDynamic(r io.ReaderAt, size int64, s *elf.Prog64) error {
	off, room, ok := p.fileOffset(s.Vaddr)
	if !ok || off != int64(s.Off) || room < int64(s.Filesz) {
		return malformed("its dynamic segment is not where it is mapped from")
	}
	// The loader reads on to DT_NULL whatever the segment's size says.
	n := min(room/16, maxDynamic)
	all := make([]elf.Dyn64, n)
	if err := readStruct(r, size, off, all); err != nil {
		return malformed("its dynamic segment can't be read")
	}
	end := slices.IndexFunc(all, func(d elf.Dyn64) bool { return elf.DynTag(d.Tag) == elf.DT_NULL })
	if end < 0 {
		return malformed("its dynamic segment does not end")
	}
	p.dyn = all[:end]
	var names []uint64
	var table, length uint64
	for _, d := range p.dyn {
		switch elf.DynTag(d.Tag) {
		case elf.DT_NEEDED:
			names = append(names, d.Val)
		case elf.DT_STRTAB:
			table = d.Val
		case elf.DT_STRSZ:
			length = d.Val
		}
	}
	if len(names) == 0 {
		return nil
	}
	off, room, ok = p.fileOffset(table)
	if !ok || length > uint64(room) || length > maxStrings {
		return malformed("its names are outside the file")
	}
	text := make([]byte, length)
	if _, err := r.ReadAt(text, off); err != nil {
		return malformed("its names can't be read")
	}
	for _, at := range names {
		if at >= uint64(len(text)) {
			return malformed("the name of a needed library is outside the file")
		}
		name, _, ok := bytes.Cut(text[at:], []byte{0})
		if !ok {
			return malformed("the name of a needed library does not end")
		}
		p.needed = append(p.needed, string(name))
	}
	return nil
}

// fileOffset translates an address by the load segments: the offset, and how
// many bytes of the file follow in the same segment. Where segments overlap
// the last one wins, as it does when they are mapped.
func (p *program) fileOffset(addr uint64) (off, room int64, ok bool) {
	for _, s := range slices.Backward(p.progs) {
		if elf.ProgType(s.Type) == elf.PT_LOAD && addr >= s.Vaddr && addr-s.Vaddr < s.Filesz {
			skip := addr - s.Vaddr
			return int64(s.Off + skip), int64(s.Filesz - skip), true
		}
	}
	return 0, 0, false
}

// readStruct reads a little-endian value that must lie within the file.
func readStruct(r io.ReaderAt, size, off int64, to any) error {
	n := int64(binary.Size(to))
	if off < 0 || off > size || n > size-off {
		return io.ErrUnexpectedEOF
	}
	return binary.Read(io.NewSectionReader(r, off, n), binary.LittleEndian, to)
}
