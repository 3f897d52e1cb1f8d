package compat

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

func TestGoRedis(t *testing.T) {
	everyVariant(t, []int{2, 3}, func(c *check, v variant, s *server) {
		ctx := context.Background()
		options := &redis.Options{
			Addr: s.addr(), Protocol: v.protocol, Username: v.user, Password: v.password, DB: v.database, ClientName: v.client,
			MaxRetries: -1, // else it hides what happens to a pipeline that is cut
		}
		r := redis.NewClient(options)
		defer r.Close() //nolint:errcheck // a test's client

		goRedisStrings(ctx, c, r)
		goRedisKeys(ctx, c, r)
		goRedisPipeline(ctx, c, r)
		goRedisServer(ctx, c, v, s, r)

		c.crash(s, func(from int) (int, error) {
			replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
				for i := from; i < from+batch; i++ {
					p.Set(ctx, fmt.Sprint("crash:", i), i, 0)
				}
				return nil
			})
			n := slices.IndexFunc(replies, func(cmd redis.Cmder) bool { return cmd.Err() != nil })
			if n < 0 {
				n = len(replies)
			}
			return n, err
		}, func(i int) (string, error) { return r.Get(ctx, fmt.Sprint("crash:", i)).Result() })
		info, err := r.Do(ctx, "client", "info").Text()
		c.clientInfo(v, info, err) // the new connection says its name and database again
	})
}

func goRedisStrings(ctx context.Context, c *check, r *redis.Client) {
	pong, err := r.Ping(ctx).Result()
	c.is("PING", pong, err, "PONG")
	binary := string([]byte{0, 1, 2, '\r', '\n', 0xff, 0xfe, '$', '*', 9, 10, 13, 0, 200, 201, 202, 203, 204, 205, 206})
	echo, err := r.Echo(ctx, binary).Result()
	c.is("ECHO", echo, err, binary)
	set, err := r.Set(ctx, "bin", binary, 0).Result()
	c.is("SET", set, err, "OK")
	got, err := r.Get(ctx, "bin").Result()
	c.is("GET", got, err, binary)
	_, err = r.Get(ctx, "missing").Result()
	c.that("GET of a missing key", errors.Is(err, redis.Nil), err)
	c.ok("SET EX", r.Set(ctx, "ttl", "", time.Hour).Err())
	ttl, err := r.TTL(ctx, "ttl").Result()
	c.ok("TTL", err)
	c.that("TTL", ttl > 59*time.Minute && ttl <= time.Hour, ttl)
	done, err := r.SetNX(ctx, "ttl", "other", 0).Result()
	c.is("SET NX", done, err, false)
	done, err = r.SetXX(ctx, "bin", "xx", redis.KeepTTL).Result()
	c.is("SET XX KEEPTTL", done, err, true)
	old, err := r.SetArgs(ctx, "bin", "new", redis.SetArgs{Get: true, TTL: time.Minute}).Result()
	c.is("SET GET EX", old, err, "xx")
	n, err := r.IncrBy(ctx, "n", 41).Result()
	c.is("INCRBY", n, err, 41)
	n, err = r.Incr(ctx, "n").Result()
	c.is("INCR", n, err, 42)
	f, err := r.IncrByFloat(ctx, "f", 2.5).Result()
	c.is("INCRBYFLOAT", f, err, 2.5)
	c.fails("INCR of a text", r.Incr(ctx, "bin").Err(), "ERR value is not an integer or out of range")
	n, err = r.Append(ctx, "n", "0").Result()
	c.is("APPEND", n, err, 3)
	part, err := r.GetRange(ctx, "n", -2, -1).Result()
	c.is("GETRANGE", part, err, "20")
	n, err = r.SetRange(ctx, "n", 5, "x").Result()
	c.is("SETRANGE", n, err, 6)
	part, err = r.GetEx(ctx, "n", time.Minute).Result()
	c.is("GETEX", part, err, "420\x00\x00x")
	part, err = r.GetDel(ctx, "n").Result()
	c.is("GETDEL", part, err, "420\x00\x00x")
	c.ok("MSET", r.MSet(ctx, "a", 1, "b", 2).Err())
	many, err := r.MGet(ctx, "a", "none", "b").Result()
	c.is("MGET", many, err, []any{"1", nil, "2"})
	done, err = r.MSetNX(ctx, "b", 3, "c", 3).Result()
	c.is("MSETNX", done, err, false)
	n, err = r.SetBit(ctx, "bits", 7, 1).Result()
	c.is("SETBIT", n, err, 0)
	n, err = r.BitCount(ctx, "bits", nil).Result()
	c.is("BITCOUNT", n, err, 1)
	fields, err := r.BitField(ctx, "bits", "incrby", "u8", 0, 254, "overflow", "fail", "incrby", "u8", 0, 1).Result()
	c.is("BITFIELD", fields, err, []int64{255, 0})
	lcs, err := r.LCS(ctx, &redis.LCSQuery{Key1: "a", Key2: "b", Len: true}).Result()
	c.ok("LCS", err)
	c.that("LCS LEN", lcs.Len == 0, lcs)
}

func goRedisKeys(ctx context.Context, c *check, r *redis.Client) {
	n, err := r.Exists(ctx, "a", "b", "a", "none").Result()
	c.is("EXISTS", n, err, 3)
	kind, err := r.Type(ctx, "a").Result()
	c.is("TYPE", kind, err, "string")
	done, err := r.ExpireGT(ctx, "ttl", time.Minute).Result()
	c.is("EXPIRE GT", done, err, false)
	done, err = r.ExpireLT(ctx, "ttl", time.Minute).Result()
	c.is("EXPIRE LT", done, err, true)
	at, err := r.ExpireTime(ctx, "ttl").Result()
	c.ok("EXPIRETIME", err)
	left := time.Until(time.Unix(0, 0).Add(at))
	c.that("EXPIRETIME", left > 50*time.Second && left <= 61*time.Second, left)
	done, err = r.Persist(ctx, "ttl").Result()
	c.is("PERSIST", done, err, true)
	c.ok("RENAME", r.Rename(ctx, "a", "z").Err())
	n, err = r.Copy(ctx, "z", "copy", 0, true).Result()
	c.ok("COPY", err)
	c.that("COPY", n <= 1, n)
	n, err = r.Touch(ctx, "z", "none").Result()
	c.is("TOUCH", n, err, 1)
	enc, err := r.ObjectEncoding(ctx, "z").Result()
	c.is("OBJECT ENCODING", enc, err, "int")
	dump, err := r.Dump(ctx, "z").Result()
	c.ok("DUMP", err)
	c.ok("RESTORE", r.RestoreReplace(ctx, "back", time.Hour, dump).Err())
	got, err := r.Get(ctx, "back").Result()
	c.is("GET of what was restored", got, err, "1")
	n, err = r.Del(ctx, "z", "none").Result()
	c.is("DEL", n, err, 1)
	n, err = r.Unlink(ctx, "b").Result()
	c.is("UNLINK", n, err, 1)

	want := map[string]bool{}
	_, err = r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range 500 {
			key := fmt.Sprintf("scan:%d", i)
			want[key] = true
			p.Set(ctx, key, i, 0)
		}
		return nil
	})
	c.ok("500 SETs in a pipeline", err)
	found := map[string]bool{}
	it := r.ScanType(ctx, 0, "scan:*", 50, "string").Iterator()
	for it.Next(ctx) {
		found[it.Val()] = true
	}
	c.ok("SCAN", it.Err())
	c.is("keys found by SCAN", len(found), nil, len(want))
	keys, err := r.Keys(ctx, "scan:49?").Result()
	slices.Sort(keys)
	c.is("KEYS", len(keys), err, 10)
}

func goRedisPipeline(ctx context.Context, c *check, r *redis.Client) {
	replies, err := r.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 50 {
			p.Incr(ctx, "count")
		}
		p.Incr(ctx, "bin")
		p.Get(ctx, "missing")
		p.Get(ctx, "count")
		return nil
	})
	c.fails("a pipeline with an error in it", err, "ERR value is not an integer")
	c.is("replies in the pipeline", len(replies), nil, 53)
	last, err := replies[49].(*redis.IntCmd).Result()
	c.is("INCR in the pipeline", last, err, 50)
	got, err := replies[52].(*redis.StringCmd).Result()
	c.is("GET behind the error", got, err, "50")
	c.that("a nil in the pipeline", errors.Is(replies[51].Err(), redis.Nil), replies[51].Err())
}

func goRedisServer(ctx context.Context, c *check, v variant, s *server, r *redis.Client) {
	info, err := r.Do(ctx, "client", "info").Text()
	c.clientInfo(v, info, err)
	name, err := r.ClientGetName(ctx).Result()
	if v.client == "" {
		c.that("CLIENT GETNAME without a name", errors.Is(err, redis.Nil) || err == nil && name == "", name)
	} else {
		c.is("CLIENT GETNAME", name, err, v.client)
	}
	status, err := r.Do(ctx, "CVM.STATUS").Result()
	c.ok("CVM.STATUS", err)
	if v.protocol == 3 {
		m, _ := status.(map[any]any)
		c.that("CVM.STATUS is a map", m["failure"] == "none", status)
	} else {
		l, _ := status.([]any)
		c.that("CVM.STATUS is an array", len(l) > 10 && l[0] == "store", status)
	}
	conn := r.Conn()
	defer conn.Close() //nolint:errcheck // a test's connection
	for _, level := range []string{"everysec", "durable", "fresh"} {
		c.ok("CVM.DURABILITY", conn.Do(ctx, "CVM.DURABILITY", level).Err())
		now, err := conn.Do(ctx, "CVM.DURABILITY").Text()
		c.is("CVM.DURABILITY", now, err, level)
	}
	c.fails("CVM.DURABILITY", conn.Do(ctx, "CVM.DURABILITY", "never").Err(), "ERR unknown durability level")
	config, err := r.ConfigGet(ctx, "maxclient*").Result()
	c.is("CONFIG GET", config["maxclients"], err, "10000")
	text, err := r.Info(ctx, "server").Result()
	c.ok("INFO", err)
	c.that("INFO", len(text) > 100, text)
	commands, err := r.Command(ctx).Result()
	c.ok("COMMAND", err)
	c.that("COMMAND knows GET", commands["get"] != nil && commands["get"].Arity == 2, commands["get"])
	now, err := r.Time(ctx).Result()
	c.ok("TIME", err)
	c.that("TIME", time.Since(now).Abs() < time.Minute, now)

	other := redis.NewClient(&redis.Options{Addr: s.addr(), Protocol: v.protocol, Username: v.user, Password: v.password, DB: 3})
	defer other.Close() //nolint:errcheck // a test's client
	n, err := other.Exists(ctx, "count").Result()
	c.is("EXISTS in another database", n, err, 0)
	if v.password != "" {
		for _, wrong := range []string{"", "wrong"} {
			bad := redis.NewClient(&redis.Options{Addr: s.addr(), Protocol: v.protocol, Password: wrong})
			prefix := "WRONGPASS"
			if wrong == "" {
				prefix = "NOAUTH"
			}
			c.fails("PING with password "+wrong, bad.Ping(ctx).Err(), prefix)
			_ = bad.Close()
		}
	}
	outside := redis.NewClient(&redis.Options{Addr: s.addr(), Protocol: v.protocol, Username: v.user, Password: v.password, DB: 99})
	defer outside.Close() //nolint:errcheck // a test's client
	c.fails("a database out of range", outside.Ping(ctx).Err(), "ERR DB index is out of range")
}
