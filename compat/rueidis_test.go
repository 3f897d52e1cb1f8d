package compat

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Its cache on the client's side needs CLIENT TRACKING, which comes with issue 8: it is off here, and must be in applications.
func TestRueidis(t *testing.T) {
	everyVariant(t, []int{2, 3}, func(c *check, v variant, s *server) {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		connect := func(change func(*rueidis.ClientOption)) (rueidis.Client, error) {
			option := rueidis.ClientOption{
				InitAddress: []string{s.addr()}, Username: v.user, Password: v.password, SelectDB: v.database, ClientName: v.client,
				AlwaysRESP2: v.protocol == 2, DisableCache: true, ForceSingleClient: true, DisableRetry: true,
			}
			if change != nil {
				change(&option)
			}
			return rueidis.NewClient(option)
		}
		r, err := connect(nil)
		c.ok("connect", err)
		defer r.Close()
		rueidisStrings(ctx, c, r)
		rueidisKeys(ctx, c, r)
		rueidisServer(ctx, c, v, r)

		other, err := connect(func(o *rueidis.ClientOption) { o.SelectDB = 3 })
		c.ok("connect to another database", err)
		n, err := other.Do(ctx, other.B().Exists().Key("count").Build()).AsInt64()
		c.is("EXISTS in another database", n, err, 0)
		other.Close()
		if v.password != "" {
			_, err = connect(func(o *rueidis.ClientOption) { o.Username, o.Password = "", "wrong" })
			c.fails("a wrong password", err, "WRONGPASS")
			_, err = connect(func(o *rueidis.ClientOption) { o.Username, o.Password = "", "" })
			c.fails("no password", err, "NOAUTH")
		}
		_, err = connect(func(o *rueidis.ClientOption) { o.SelectDB = 99 })
		c.fails("a database out of range", err, "DB index is out of range") // rueidis drops the word ERR

		c.crash(s, func(from int) (int, error) {
			var cmds rueidis.Commands
			for i := from; i < from+batch; i++ {
				cmds = append(cmds, r.B().Set().Key(fmt.Sprint("crash:", i)).Value(fmt.Sprint(i)).Build())
			}
			for n, reply := range r.DoMulti(ctx, cmds...) {
				if err := reply.Error(); err != nil {
					return n, err
				}
			}
			return batch, nil
		}, func(i int) (string, error) {
			return r.Do(ctx, r.B().Get().Key(fmt.Sprint("crash:", i)).Build()).ToString()
		})
		info, err := r.Do(ctx, r.B().ClientInfo().Build()).ToString()
		c.clientInfo(v, info, err)
	})
}

func rueidisStrings(ctx context.Context, c *check, r rueidis.Client) {
	do := func(words ...string) rueidis.RedisResult {
		return r.Do(ctx, r.B().Arbitrary(words...).Build())
	}
	got, err := do("PING").ToString()
	c.is("PING", got, err, "PONG")
	binary := "\x00\x01\r\n\xff\xfe$5\r\n*1\r\n" + strings.Repeat("\x00", 20)
	got, err = r.Do(ctx, r.B().Set().Key("bin").Value(binary).Build()).ToString()
	c.is("SET", got, err, "OK")
	got, err = r.Do(ctx, r.B().Get().Key("bin").Build()).ToString()
	c.is("GET", got, err, binary)
	_, err = r.Do(ctx, r.B().Get().Key("missing").Build()).ToString()
	c.that("GET of a missing key", rueidis.IsRedisNil(err), err)
	big := strings.Repeat("0123456789abcdef", 1<<16)
	c.ok("SET of 1 MiB", r.Do(ctx, r.B().Set().Key("big").Value(big).ExSeconds(100).Build()).Error())
	got, err = r.Do(ctx, r.B().Get().Key("big").Build()).ToString()
	c.that("GET of 1 MiB", err == nil && got == big, len(got))
	n, err := r.Do(ctx, r.B().Ttl().Key("big").Build()).AsInt64()
	c.that("TTL", err == nil && n > 90 && n <= 100, n)
	err = r.Do(ctx, r.B().Set().Key("big").Value("x").Nx().Build()).Error()
	c.that("SET NX", rueidis.IsRedisNil(err), err)
	n, err = r.Do(ctx, r.B().Incrby().Key("n").Increment(42).Build()).AsInt64()
	c.is("INCRBY", n, err, 42)
	f, err := r.Do(ctx, r.B().Incrbyfloat().Key("f").Increment(2.5).Build()).AsFloat64()
	c.is("INCRBYFLOAT", f, err, 2.5)
	err = r.Do(ctx, r.B().Incr().Key("bin").Build()).Error()
	c.fails("INCR of a text", err, "value is not an integer or out of range") // rueidis drops the word ERR
	n, err = do("APPEND", "n", "0").AsInt64()
	c.is("APPEND", n, err, 3)
	got, err = do("GETRANGE", "n", "0", "1").ToString()
	c.is("GETRANGE", got, err, "42")
	got, err = do("GETEX", "n", "PX", "100000").ToString()
	c.is("GETEX", got, err, "420")
	c.ok("MSET", r.Do(ctx, r.B().Mset().KeyValue().KeyValue("a", "1").KeyValue("b", "2").Build()).Error())
	many, err := r.Do(ctx, r.B().Mget().Key("a", "none", "b").Build()).ToArray()
	c.ok("MGET", err)
	c.that("MGET", len(many) == 3 && many[1].IsNil(), many)
	fields, err := do("BITFIELD", "bits", "SET", "i8", "#1", "-1", "GET", "u4", "8").AsIntSlice()
	c.is("BITFIELD", fields, err, []int64{0, 15})
}

func rueidisKeys(ctx context.Context, c *check, r rueidis.Client) {
	n, err := r.Do(ctx, r.B().Exists().Key("a", "b", "none").Build()).AsInt64()
	c.is("EXISTS", n, err, 2)
	n, err = r.Do(ctx, r.B().Expire().Key("a").Seconds(100).Xx().Build()).AsInt64()
	c.is("EXPIRE XX", n, err, 0)
	done, err := r.Do(ctx, r.B().Copy().Source("a").Destination("b").Replace().Build()).AsBool()
	c.is("COPY REPLACE", done, err, true)
	dump, err := r.Do(ctx, r.B().Dump().Key("a").Build()).ToString()
	c.ok("DUMP", err)
	c.ok("RESTORE", r.Do(ctx, r.B().Restore().Key("back").Ttl(0).SerializedValue(dump).Build()).Error())
	n, err = r.Do(ctx, r.B().Del().Key("a", "b", "back", "none").Build()).AsInt64()
	c.is("DEL", n, err, 3)

	var cmds rueidis.Commands
	for i := range 500 {
		cmds = append(cmds, r.B().Set().Key(fmt.Sprintf("scan:%d", i)).Value("x").Build())
	}
	for range 50 {
		cmds = append(cmds, r.B().Incr().Key("count").Build())
	}
	cmds = append(cmds, r.B().Incr().Key("bin").Build(), r.B().Get().Key("missing").Build(), r.B().Get().Key("count").Build())
	replies := r.DoMulti(ctx, cmds...)
	c.is("replies in the pipeline", len(replies), nil, 553)
	bad := slices.IndexFunc(replies, func(x rueidis.RedisResult) bool { return x.Error() != nil })
	c.is("the first error in the pipeline", bad, nil, 550)
	c.fails("an error in the pipeline", replies[550].Error(), "value is not an integer")
	c.that("a nil in the pipeline", rueidis.IsRedisNil(replies[551].Error()), replies[551].Error())
	got, err := replies[552].ToString()
	c.is("GET behind the error", got, err, "50")

	found := map[string]bool{}
	for cursor := uint64(0); ; {
		entry, err := r.Do(ctx, r.B().Scan().Cursor(cursor).Match("scan:*").Count(50).Type("string").Build()).AsScanEntry()
		c.fatal(err)
		for _, key := range entry.Elements {
			found[key] = true
		}
		if cursor = entry.Cursor; cursor == 0 {
			break
		}
	}
	c.is("keys found by SCAN", len(found), nil, 500)
}

func rueidisServer(ctx context.Context, c *check, v variant, r rueidis.Client) {
	info, err := r.Do(ctx, r.B().ClientInfo().Build()).ToString()
	c.clientInfo(v, info, err)
	status, err := r.Do(ctx, r.B().Arbitrary("CVM.STATUS").Build()).ToMessage()
	c.ok("CVM.STATUS", err)
	c.is("CVM.STATUS is a map", status.IsMap(), nil, v.protocol == 3)
	fields, err := status.AsMap()
	c.ok("CVM.STATUS", err)
	failure := fields["failure"]
	got, err := failure.ToString()
	c.is("CVM.STATUS failure", got, err, "none")
	for _, level := range []string{"everysec", "durable", "fresh"} {
		c.ok("CVM.DURABILITY", r.Do(ctx, r.B().Arbitrary("CVM.DURABILITY", level).Build()).Error())
		got, err := r.Do(ctx, r.B().Arbitrary("CVM.DURABILITY").Build()).ToString()
		c.is("CVM.DURABILITY", got, err, level)
	}
	config, err := r.Do(ctx, r.B().ConfigGet().Parameter("maxclients", "appendonly").Build()).AsStrMap()
	c.ok("CONFIG GET", err)
	c.is("CONFIG GET", config["appendonly"]+config["maxclients"], nil, "yes10000")
	text, err := r.Do(ctx, r.B().Info().Section("server").Build()).ToString()
	c.that("INFO", err == nil && strings.Contains(text, "redis_version:"), text)
}
