package harness

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"testing"

	"sophia/hostd/harness/contracts"
	"sophia/messages/problem"
)

// FuzzELF: no input panics, reads without bound, or gives an error that is not
// one of ours.
func FuzzELF(f *testing.F) {
	for _, path := range []string{"/proc/self/exe", "/bin/sh", "/bin/true"} {
		if b, err := os.ReadFile(path); err == nil {
			f.Add(b[:min(len(b), 8192)])
			if len(b) < 1<<18 {
				f.Add(b)
			}
		}
	}
	f.Add(minimal())
	f.Add([]byte("\x7fELF"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, linking := range []contracts.Linking{contracts.Static, contracts.SystemLoader, contracts.AnyLinking} {
			err := checkELF(bytes.NewReader(b), int64(len(b)), elf.EM_X86_64, linking)
			if err != nil && problem.CodeOf(err) == "" {
				t.Fatalf("an error without a code: %v", err)
			}
		}
	})
}

// minimal is a whole program of one segment: header, one program header, code.
func minimal() []byte {
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: 0x400078, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	write(&b, h)
	write(&b, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Vaddr: 0x400000, Filesz: 130, Memsz: 130})
	b.Write([]byte{0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05, 0}) // exit(0)
	return b.Bytes()
}

func TestELF_Minimal(t *testing.T) {
	b := minimal()
	if err := checkELF(bytes.NewReader(b), int64(len(b)), elf.EM_X86_64, contracts.Static); err != nil {
		t.Fatal(err)
	}
	for cut := range b {
		if err := checkELF(bytes.NewReader(b[:cut]), int64(cut), elf.EM_X86_64, contracts.Static); err == nil {
			t.Errorf("accepted when cut to %d of %d bytes", cut, len(b))
		}
	}
}

// The loader takes the dynamic segment from its address, readelf from its
// offset: a file that tells them two stories is refused.
func TestELF_DynamicSegmentToldTwice(t *testing.T) {
	var b bytes.Buffer
	h := elf.Header64{Type: uint16(elf.ET_DYN), Machine: uint16(elf.EM_X86_64), Version: 1, Entry: 0, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 2}
	copy(h.Ident[:], "\x7fELF\x02\x01\x01")
	write(&b, h)
	const size = 64 + 2*56 + 2*32
	write(&b, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: 5, Filesz: size, Memsz: size})
	write(&b, elf.Prog64{Type: uint32(elf.PT_DYNAMIC), Off: size - 64, Vaddr: size - 32, Filesz: 32, Memsz: 32})
	write(&b, []elf.Dyn64{{Tag: int64(elf.DT_DEBUG)}, {}, {Tag: int64(elf.DT_RUNPATH), Val: 1}, {}})
	err := checkELF(bytes.NewReader(b.Bytes()), size, elf.EM_X86_64, contracts.Static)
	if problem.CodeOf(err) != "managed_harness_not_elf" {
		t.Fatal(err)
	}
}

func write(b *bytes.Buffer, v any) {
	if err := binary.Write(b, binary.LittleEndian, v); err != nil {
		panic(err) // a fixed-size value into memory
	}
}
