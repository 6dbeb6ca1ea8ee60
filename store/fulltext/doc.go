// Package fulltext has the pure parts of search: posting blocks as bytes, and
// the best documents of a query by BM25 (k1 1.2, b 0.75; Robertson and Zaragoza
// 2009) without scoring all that match.
//
// A block holds up to 128 postings of one term in ordinal order. Its key names
// the first ordinal, so that the block of an ordinal is found by one seek.
//
//	format  count  widths  span  impacts          gaps    frequencies  lengths
//	└ enough for an upper bound of any score ───┘ └ read where it is high enough ┘
//
// The impacts are the block's pairs of frequency and length that no other pair
// of it beats: whatever the statistics are by now, no posting scores more than
// the best of them (block-max index, Ding and Suel 2011; pairs as in Lucene 8).
// Blocks of several terms are laid side by side into windows, the windows are
// taken best bound first until none can reach the page, and within a window
// terms that can't do so by themselves are only looked up (MaxScore, Turtle and
// Flood 1995). What comes out is what scoring everything would give, to the bit.
//
// Imports: the standard library only.
package fulltext
