// Package bench measures capture, relay and dedup against what they stand beside.
// The variants of a benchmark take turns, and what is reported are medians and the medians of the
// ratios of each turn, since single figures say little on a shared machine.
//
//	make bench
package bench
