package analysis_test

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kljensen/snowball/english"

	"sophia/store/analysis"
)

func TestTerms(t *testing.T) {
	for in, want := range map[string]string{
		"queryKnowledge":           "queryknowledge queri knowledg",
		"HTTPServer":               "httpserver http server",
		"snake_case_name":          "snake_case_name snake case name",
		"RULE-A002":                "rule-a002 rule a002",
		"rm -rf /":                 "rm -rf rf",
		"C++ and C#":               "c++ c and c# c",
		"store/engine/badger.go":   "store engin badger.go badger go",
		"Running the tests.":       "run the test",
		"owner's":                  "owner",
		"owner’s":                  "owner",
		"don't":                    "don't",
		"黒猫":                       "黒 猫 黒猫",
		"東京tower":                  "東 京 東京 tower",
		"한국어":                      "한 국 한국 어 국어",
		"cafe\u0301":               "café",
		"café":                     "café",
		"Straße":                   "strass",
		"ﬁle":                      "file",
		"__init__":                 "__init__ init",
		"--dry-run":                "-dry-run dri run",
		"1.2.3":                    "1.2.3 1 2 3",
		"...":                      "",
		"":                         "",
		"\xff\xfe":                 "",
		"книги":                    "книг",
		"sha256":                   "sha256",
		"end.\nStart":              "end start",
		"sophia.query_knowledge()": "sophia.query_knowledge sophia queri knowledg",
	} {
		if got := strings.Join(analysis.Terms(in), " "); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestQueryTerms_LeavesOutWordsWithoutMeaningWhereOthersRemain(t *testing.T) {
	if got := analysis.QueryTerms("what is the plan of the plan"); !slices.Equal(got, []string{"plan"}) {
		t.Errorf("%q", got)
	}
	if got := analysis.QueryTerms("to be or not to be"); len(got) == 0 {
		t.Error("a query of such words alone finds nothing")
	}
	if got := analysis.QueryTerms("黒猫"); !slices.Equal(got, []string{"黒猫"}) {
		t.Errorf("%q", got)
	}
	if got := analysis.QueryTerms("猫"); !slices.Equal(got, []string{"猫"}) {
		t.Errorf("%q", got)
	}
}

// A word's stem does not depend on the words before it, however many there were.
func TestTerms_StemsEveryWordAlike(t *testing.T) {
	for range 2 {
		for i := range 20_000 {
			word := string([]byte{'b' + byte(i%20), 'a', 'c' + byte(i/20%20), 'u', 'd' + byte(i/400%20), 'b' + byte(i/8000)}) + "ing"
			if got, want := analysis.Terms(word), english.Stem(word, false); len(got) != 1 || got[0] != want {
				t.Fatalf("%s: %q, want %q", word, got, want)
			}
		}
	}
}

// What is asked for in the very words of the text is found.
func FuzzTerms(f *testing.F) {
	for _, s := range []string{"queryKnowledge RULE-A002 rm -rf C++", "東京 tower cafe\u0301 ﬁ", "\xff_-.+#'’ʼ", "ʼn İ ß ǅ", strings.Repeat("añ", 80)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		terms := analysis.Terms(s)
		stored := map[string]bool{}
		for _, term := range terms {
			if term == "" || len(term) > 64 || !utf8.ValidString(term) {
				t.Fatalf("%q gives the term %q", s, term)
			}
			stored[term] = true
		}
		for _, q := range analysis.QueryTerms(s) {
			if !stored[q] {
				t.Fatalf("%q: the query's term %q is not among %q", s, q, terms)
			}
		}
		if len(terms) > 0 && len(analysis.QueryTerms(s)) == 0 {
			t.Fatalf("%q has terms and asks for none", s)
		}
	})
}
