package terminal

import "testing"

func TestDetach_KeysInAllEncodings(t *testing.T) {
	for in, want := range map[string]string{ // what the program gets, "!" for detached
		"abc":                                   "abc",
		"\x1cd":                                 "!",
		"ab\x1cdcd":                             "ab!",
		"\x1c\x1c":                              "\x1c",
		"\x1cx":                                 "\x1cx",
		"\x1c\x1b[A":                            "\x1c\x1b[A",
		"\x1b[92;5ud":                           "!",
		"\x1b[92;5u\x1b[100u":                   "!",
		"\x1b[92;5:1u\x1b[92;5:3u\x1b[100;1:1u": "!",
		"\x1b[92;133u\x1b[100;129u":             "!", // with num lock
		"\x1b[27;5;92~d":                        "!",
		"\x1b[92;5u\x1b[120u":                   "\x1b[92;5u\x1b[120u",
		"\x1b[92;5:1u\x1b[92;5:3ux":             "\x1b[92;5:1u\x1b[92;5:3ux",
		"\x1b[100;5u":                           "\x1b[100;5u",
		"\x1c\x1b[5;5Rd":                        "\x1b[5;5R!", // an answer in between
		"\x1b":                                  "\x1b",
		"\x1c\x1b":                              "\x1c\x1b",
		"\x1b[200~pasted \xc3\xa9\x1b[201~":     "\x1b[200~pasted \xc3\xa9\x1b[201~",
	} {
		l := leaver{Leave: DefaultLeave}
		out, gone := l.typed([]byte(in))
		got := string(out)
		if gone {
			got += "!"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
	l := leaver{Leave: DefaultLeave} // in two reads
	if out, gone := l.typed([]byte("a\x1c")); string(out) != "a" || gone {
		t.Errorf("%q %v", out, gone)
	}
	if out, gone := l.typed([]byte("d")); len(out) > 0 || !gone {
		t.Errorf("%q %v", out, gone)
	}
}
