// Package difftest holds a test only: random commands go to this server and to the redis-server of the machine, and the replies are
// compared byte for byte, in RESP2 and RESP3. What may differ stands in one table (allowed_test.go), each row with its reason.
//
//	go test ./resp/difftest                                      a few seconds
//	go test ./resp/difftest -run Replies -for 10m -timeout 15m   a soak
//	go test ./resp/difftest -run Replies -seed 7                 the round that failed, again
package difftest
