// Package bench measures ours against a peer in one run and prints figures that
// a script can read:
//
//	figure supervise.send_ratio 1.21 goal <=1.5 ok
//
// Contestants run interleaved, in rotating order, after one round that is not
// counted, and are compared by the median of the ratios of each round: a machine
// that gets slower or noisy half-way slows both sides of a ratio. A bench
// program lies in a folder below this one and exits 0 when it measured,
// whatever it found.
package bench
