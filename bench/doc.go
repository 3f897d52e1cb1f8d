// Package bench measures this server beside what people would use instead, in one run, on one machine, and reports ratios with
// their spread. It starts the programs that it compares, drives them over loopback, and stops them.
//
// A ratio is the median over rounds of (ours / theirs), where both sides of a round ran one after the other under the same load;
// the order alternates from round to round, because a shared machine drifts. Nothing here is a test: numbers do not fail a build.
package bench
