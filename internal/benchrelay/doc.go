// Command benchrelay measures the relay on real servers and prints a Markdown table. What counts in it are
// ratios: the variants of a figure take turns, and a ratio is the median of the ratios of each round, with those behind it. Rates say only what
// was compared.
//
//	make bench-relay
//	make bench-relay ARGS='-only drain,latency -rounds 5'
//	make bench-relay ARGS=-small
//
// With -small everything has a fiftieth of its size: that shows whether the figures can be made, and nothing else.
//
// It is a module of its own, since it compares with Watermill's forwarder over watermill-sql, which nothing else here needs. All databases and topics that it
// makes have names beginning with benchrelay and are dropped at the end, also after Ctrl-C. All of it at once takes up to 15 GB.
package main
