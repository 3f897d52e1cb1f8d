package compat

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Redigo speaks RESP2 only.
func TestRedigo(t *testing.T) {
	everyVariant(t, []int{2}, func(c *check, v variant, s *server) {
		options := []redis.DialOption{
			redis.DialUsername(v.user), redis.DialPassword(v.password), redis.DialDatabase(v.database), redis.DialClientName(v.client),
			redis.DialReadTimeout(10 * time.Second),
		}
		pool := &redis.Pool{
			MaxIdle: 4,
			Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", s.addr(), options...) },
			TestOnBorrow: func(r redis.Conn, _ time.Time) error {
				_, err := r.Do("PING")
				return err
			},
		}
		defer pool.Close() //nolint:errcheck // a test's pool
		r := pool.Get()
		redigoStrings(c, r)
		redigoKeys(c, r)
		redigoPipeline(c, r)
		redigoServer(c, v, s, r)
		_ = r.Close()

		c.crash(s, func(from int) (int, error) {
			r := pool.Get()
			defer r.Close() //nolint:errcheck // back into the pool
			for i := from; i < from+batch; i++ {
				if err := r.Send("SET", fmt.Sprint("crash:", i), i); err != nil {
					return 0, err
				}
			}
			if err := r.Flush(); err != nil {
				return 0, err
			}
			for n := range batch {
				if _, err := r.Receive(); err != nil {
					return n, err
				}
			}
			return batch, nil
		}, func(i int) (string, error) {
			r := pool.Get()
			defer r.Close() //nolint:errcheck // back into the pool
			return redis.String(r.Do("GET", fmt.Sprint("crash:", i)))
		})
		r = pool.Get()
		defer r.Close() //nolint:errcheck // back into the pool
		info, err := redis.String(r.Do("CLIENT", "INFO"))
		c.clientInfo(v, info, err)
	})
}

func redigoStrings(c *check, r redis.Conn) {
	text := func(args ...any) (string, error) { return redis.String(r.Do(args[0].(string), args[1:]...)) }
	number := func(args ...any) (int64, error) { return redis.Int64(r.Do(args[0].(string), args[1:]...)) }

	pong, err := text("PING")
	c.is("PING", pong, err, "PONG")
	binary := "\x00\x01\r\n\xff\xfe$5\r\n*1\r\n" + strings.Repeat("\x00", 20)
	echo, err := text("ECHO", binary)
	c.is("ECHO", echo, err, binary)
	set, err := text("set", "bin", binary)
	c.is("SET", set, err, "OK")
	got, err := text("GeT", "bin")
	c.is("GET", got, err, binary)
	_, err = text("GET", "missing")
	c.that("GET of a missing key", errors.Is(err, redis.ErrNil), err)
	big := strings.Repeat("0123456789abcdef", 1<<16)
	set, err = text("SET", "big", big, "EX", 100)
	c.is("SET of 1 MiB", set, err, "OK")
	got, err = text("GET", "big")
	c.that("GET of 1 MiB", err == nil && got == big, len(got))
	n, err := number("TTL", "big")
	c.that("TTL", err == nil && n > 90 && n <= 100, n)
	reply, err := r.Do("SET", "big", "x", "NX")
	c.is("SET NX", reply, err, nil)
	got, err = text("SET", "bin", "new", "XX", "GET", "KEEPTTL")
	c.is("SET XX GET", got, err, binary)
	n, err = number("INCRBY", "n", 41)
	c.is("INCRBY", n, err, 41)
	n, err = number("DECR", "n")
	c.is("DECR", n, err, 40)
	f, err := redis.Float64(r.Do("INCRBYFLOAT", "f", "2.5e0"))
	c.is("INCRBYFLOAT", f, err, 2.5)
	_, err = r.Do("INCR", "bin")
	c.fails("INCR of a text", err, "ERR value is not an integer or out of range")
	n, err = number("APPEND", "n", "0")
	c.is("APPEND", n, err, 3)
	n, err = number("STRLEN", "n")
	c.is("STRLEN", n, err, 3)
	got, err = text("SUBSTR", "n", 0, 1)
	c.is("SUBSTR", got, err, "40")
	got, err = text("GETDEL", "n")
	c.is("GETDEL", got, err, "400")
	_, err = r.Do("MSET", redis.Args{}.AddFlat(map[string]int{"a": 1, "b": 2})...)
	c.ok("MSET", err)
	many, err := redis.Strings(r.Do("MGET", "a", "none", "b"))
	c.is("MGET", many, err, []string{"1", "", "2"})
	n, err = number("SETBIT", "bits", 7, 1)
	c.is("SETBIT", n, err, 0)
	n, err = number("BITCOUNT", "bits", 0, -1, "BYTE")
	c.is("BITCOUNT", n, err, 1)
	n, err = number("BITOP", "NOT", "bits2", "bits")
	c.is("BITOP", n, err, 1)
	n, err = number("BITPOS", "bits2", 0)
	c.is("BITPOS", n, err, 7)
}

func redigoKeys(c *check, r redis.Conn) {
	n, err := redis.Int(r.Do("EXISTS", "a", "b", "none"))
	c.is("EXISTS", n, err, 2)
	n, err = redis.Int(r.Do("PEXPIRE", "a", 100000, "NX"))
	c.is("PEXPIRE NX", n, err, 1)
	n, err = redis.Int(r.Do("PTTL", "a"))
	c.that("PTTL", err == nil && n > 90000 && n <= 100000, n)
	n, err = redis.Int(r.Do("RENAMENX", "a", "b"))
	c.is("RENAMENX", n, err, 0)
	n, err = redis.Int(r.Do("DEL", "a", "b", "none"))
	c.is("DEL", n, err, 2)
	_, err = r.Do("NOSUCH", "x")
	c.fails("an unknown command", err, "ERR unknown command 'NOSUCH', with args beginning with: 'x'")
	_, err = r.Do("GET")
	c.fails("too few arguments", err, "ERR wrong number of arguments for 'get' command")

	for i := range 500 {
		c.fatal(r.Send("SET", fmt.Sprintf("scan:%d", i), i))
	}
	_, err = r.Do("")
	c.ok("500 SETs in a pipeline", err)
	found := map[string]bool{}
	cursor := "0"
	for {
		reply, err := redis.Values(r.Do("SCAN", cursor, "MATCH", "scan:*", "COUNT", 50))
		c.fatal(err)
		var keys []string
		_, err = redis.Scan(reply, &cursor, &keys)
		c.fatal(err)
		for _, key := range keys {
			found[key] = true
		}
		if cursor == "0" {
			break
		}
	}
	c.is("keys found by SCAN", len(found), nil, 500)
}

// fatal ends the test on an error; it does not count.
func (c *check) fatal(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

func redigoPipeline(c *check, r redis.Conn) {
	for range 50 {
		c.fatal(r.Send("INCR", "count"))
	}
	c.fatal(r.Send("INCR", "bin"))
	c.fatal(r.Send("GET", "missing"))
	c.fatal(r.Send("GET", "count"))
	c.fatal(r.Flush())
	for i := range 50 {
		n, err := redis.Int(r.Receive())
		if err != nil || n != i+1 {
			c.Fatalf("reply %d in the pipeline: %d, %v", i, n, err)
		}
	}
	_, err := r.Receive()
	c.fails("an error in the pipeline", err, "ERR value is not an integer")
	reply, err := r.Receive()
	c.is("a nil in the pipeline", reply, err, nil)
	got, err := redis.String(r.Receive())
	c.is("GET behind the error", got, err, "50")
}

func redigoServer(c *check, v variant, s *server, r redis.Conn) {
	info, err := redis.String(r.Do("CLIENT", "INFO"))
	c.clientInfo(v, info, err)
	status, err := redis.Values(r.Do("CVM.STATUS"))
	c.ok("CVM.STATUS", err)
	c.that("CVM.STATUS", len(status) > 10 && string(status[0].([]byte)) == "store", status)
	for _, level := range []string{"everysec", "durable", "fresh"} {
		_, err := r.Do("CVM.DURABILITY", level)
		c.ok("CVM.DURABILITY", err)
		now, err := redis.String(r.Do("CVM.DURABILITY"))
		c.is("CVM.DURABILITY", now, err, level)
	}
	config, err := redis.StringMap(r.Do("CONFIG", "GET", "save", "appendonly"))
	c.ok("CONFIG GET", err)
	c.is("CONFIG GET appendonly", config["appendonly"], nil, "yes")
	n, err := redis.Int(r.Do("DBSIZE"))
	c.that("DBSIZE", err == nil && n > 500, n)

	url := fmt.Sprintf("redis://%s/3", s.addr())
	if v.password != "" {
		_, err = redis.DialURL(url)
		c.fails("without the password", err, "NOAUTH")
		_, err = redis.Dial("tcp", s.addr(), redis.DialPassword("wrong"))
		c.fails("with a wrong password", err, "WRONGPASS")
	} else {
		other, err := redis.DialURL(url)
		c.ok("a URL with a database", err)
		n, err := redis.Int(other.Do("EXISTS", "count"))
		c.is("EXISTS in another database", n, err, 0)
		_ = other.Close()
	}
	_, err = redis.Dial("tcp", s.addr(), redis.DialPassword(v.password), redis.DialDatabase(99))
	c.fails("a database out of range", err, "ERR DB index is out of range")
}
