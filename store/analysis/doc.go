// Package analysis turns text into search terms, the same way for what is
// stored and for what is asked.
//
//	"queryKnowledge"  → queryknowledge, queri, knowledg
//	"RULE-A002"       → rule-a002, rule, a002
//	"rm -rf"          → rm, -rf, rf
//	"C++"             → c++, c
//	"黒猫"             → 黒, 猫, 黒猫      (asked for: 黒猫 alone)
//
// A token is kept whole and split into its parts, so that both an exact
// identifier and a word in it are found. Text is NFKC-normalized and
// case-folded; words are stemmed by the language of their script (Latin as
// English, Cyrillic as Russian; Porter2 and Snowball).
//
// Imports: x/text, kljensen/snowball.
package analysis
