package difftest

import (
	"strings"
	"testing"
)

// scriptCases are bodies that this server and the oracle run, in RESP2 and RESP3. KEYS are k1 k2, ARGV a 7 3.5.
var scriptCases = strings.Split(strings.TrimSpace(`
return {KEYS[1], KEYS[2], ARGV[1], ARGV[2] + 1, #KEYS, #ARGV}
return {1, 2.9, -2.9, 1e3, 'x', true, false, {ok='fine'}, {err='BAD thing'}}
return {1, 2, nil, 4}
return {{1, {2, {3}}}, {}, ''}
return nil
return {double=3.5}
redis.setresp(3) return {double=3.5}
redis.setresp(3) return {map={a=1}}
redis.setresp(3) return {set={a=true}}
redis.setresp(3) return true
redis.setresp(3) return false
redis.setresp(3) return {1, true, false, nil, 5}
return {map={a=1}}
return {big_number='123'}
return {verbatim_string={format='txt', string='hello'}}
return redis.status_reply('GOOD')
return redis.error_reply('BAD x')
return redis.error_reply('-BAD x')
return {err='plain'}
return redis.call('set', KEYS[1], ARGV[2])
return redis.call('get', KEYS[1])
return redis.call('get', 'nosuch')
redis.setresp(3) return redis.call('get', 'nosuch') == nil
redis.setresp(3) return type(redis.call('get', 'nosuch'))
return redis.call('incrby', KEYS[1], 5)
return redis.call('hset', KEYS[2], 'f', 'v', 'g', 'w')
return redis.call('hgetall', KEYS[2])
redis.setresp(3) return redis.call('hgetall', KEYS[2]).map.f
return redis.call('lpush', KEYS[1], 1)
return redis.pcall('lpush', KEYS[1], 1)
return redis.pcall('lpush', KEYS[1], 1).err
local ok, e = pcall(redis.call, 'lpush', KEYS[1], 1) return {tostring(ok), type(e), e.err}
return redis.call('nosuch')
return redis.call('get')
return redis.call()
return redis.call({})
return redis.pcall('subscribe', 'x')
return redis.call('blpop', 'x', 0)
return redis.call('multi')
return redis.call('eval', 'return 1', 0)
error('mine')
error({err='MY own'})
local x = nil + 1
return undefined
undefined = 1
local t = {} t.x.y = 1
return redis.nosuch
return this is not lua
return tostring(0.1) .. ' ' .. 1/3 .. ' ' .. 1e15 .. ' ' .. 1e14 .. ' ' .. 123456789012345678
return tostring(1/0) .. tostring(-1/0)
return {tostring(nil), tostring(true), type(tostring({})), tostring(-0.5)}
return 100 .. ''
return {tonumber('0x10'), tonumber('10', 2), tonumber('z', 36), tonumber(' 5 ')}
return string.format('%5.2f|%d|%x|%s|%q|%c|%%|%g|%e|%05d|%-5s|', 3.14159, 42, 255, 'str', 'q"\n', 65, 0.1, 12345.678, 42, 'ab')
return string.rep('ab', 3) .. ('x'):upper() .. #('abc')
return {string.find('hello world', 'o w'), string.find('hello', 'l+'), string.match('key=val', '(%w+)=(%w+)')}
return {string.gsub('hello world', 'o', '0'), string.gsub('abc', '%w', '%0%0'), string.gsub('abc', '(a)(b)', '%2%1')}
return {string.gsub('hello', 'l', {l='L'}), string.gsub('abc', '%w', function(c) return c:byte() end)}
return {string.byte('abc', 1, -1)}
local r = {} for w in string.gmatch('one two', '%a+') do r[#r + 1] = w end return r
return {string.sub('hello', 2, -2), string.reverse('abc'), string.len('x'), string.lower('ABC')}
local t = {3, 1, 2} table.sort(t) return t
local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t
local t = {1, 2} table.insert(t, 3) table.insert(t, 1, 0) return {table.concat(t, ','), table.remove(t), table.remove(t, 1), #t}
return table.concat({1, 2.5, 'x'}, '-')
return {unpack({1, 2, 3}, 2)}
return select('#', 1, nil, nil)
return {math.floor(2.7), math.ceil(2.1), math.max(1, 5), math.min(3, 2), math.abs(-4), math.fmod(7, 3), math.pow(2, 8)}
return {bit.band(255, 15), bit.bor(1, 2), bit.bxor(3, 1), bit.bnot(0), bit.lshift(1, 31), bit.rshift(-1, 28), bit.arshift(-256, 4), bit.rol(1, 33), bit.ror(1, 1), bit.bswap(1), bit.tobit(2^40 + 5), bit.tohex(255), bit.tohex(-1, 4)}
return cjson.encode({1, 2, {a='b'}})
return cjson.encode({['a/b']='c"d\n\1\127'})
return {cjson.encode({}), cjson.encode(cjson.null), cjson.encode(1.5), cjson.encode('x'), cjson.encode(true)}
return cjson.encode({[1]=1, [2]=2, [4]=4})
return cjson.encode({[1000]=1})
return cjson.encode({[true]=1})
return cjson.encode(1e20)
return cjson.decode('{"a":[1,2.5,"x",null,true],"b":{"c":"\u00e9\ud83d\ude00"}}').a
return cjson.decode('"\u00e9\ud83d\ude00"')
return cjson.decode('[1,2')
return cjson.decode('{"a" 1}')
return cjson.decode('nope')
return cjson.decode('[1] x')
return tostring(cjson.decode('[null]')[1] == cjson.null)
return cmsgpack.pack(1, -1, 200, -200, 70000, 2^33, 1.5, 'x', true, nil, {1, 2}, {a=1})
return {cmsgpack.unpack(cmsgpack.pack(1, -1, 200, 'x', true, {1, 2}))}
return cmsgpack.unpack(cmsgpack.pack({a={b={1, 2, 3}}})).a.b
return cmsgpack.unpack('\xc1')
return {cmsgpack.unpack_one(cmsgpack.pack(1, 2, 3))}
return {cmsgpack.unpack_limit(cmsgpack.pack(1, 2, 3), 2)}
return struct.pack('>I2hbB', 258, -2, -1, 255)
return struct.pack('<i4!8d', 7, 1.5)
return {struct.unpack('>I2hbB', struct.pack('>I2hbB', 258, -2, -1, 255))}
return {struct.unpack('bc0', struct.pack('bc0', 3, 'abc'))}
return {struct.unpack('s', 'abc\0def'), struct.size('i4i8'), struct.size('!8i4i8')}
return struct.unpack('I4', 'ab')
return struct.pack('Z', 1)
return {redis.sha1hex('x'), redis.LOG_WARNING, redis.REPL_ALL}
return redis.sha1hex()
return redis.setresp(4)
return redis.set_repl(9)
redis.log(redis.LOG_DEBUG, 'x') return 1
redis.log(9, 'x')
redis.log('x')
redis.call = 1
string.rep = 1
setmetatable(_G, nil)
rawset(_G, 'x', 1)
table.insert(redis, 1)
getmetatable('').__index = nil
local t = setmetatable({}, {__index = function(_, k) return k .. '!' end}) return t.abc
local t = setmetatable({}, {__call = function(_, x) return x * 2 end}) return t(21)
local t = setmetatable({}, {__tostring = function() return 'me' end}) return tostring(t)
local co = coroutine.create(function(a) local b = coroutine.yield(a + 1) return b * 2 end) local _, x = coroutine.resume(co, 1) local _, y = coroutine.resume(co, 10) return {x, y, coroutine.status(co)}
local f = coroutine.wrap(function() for i = 1, 3 do coroutine.yield(i) end end) return {f(), f(), f()}
return loadstring('return 1 + 1')()
return {loadstring('return +')}
return {pcall(error, {err='t'})}
return {xpcall(function() error('x', 0) end, function(e) return 'handled ' .. e end)}
local n = 0 for k, v in pairs({a=1, b=2, c=3}) do n = n + v end return n
local n = 0 for i, v in ipairs({5, 6, nil, 7}) do n = n + v end return n
return #{1, 2, 3, nil, 5} > 0
goto x
return redis.call('set', 'n', 1.5)
redis.call('set', 'n', 10) return redis.call('incrbyfloat', 'n', 0.1)
redis.call('set', 'n', 9007199254740993) return redis.call('get', 'n')
redis.call('set', 'n', 1e100) return redis.call('get', 'n')
redis.call('select', 1) redis.call('set', 'other', 1) return redis.call('dbsize')
return redis.call('exists', 'other')
return redis.call('type', KEYS[2])
return redis.call('type', KEYS[2]).ok
return redis.call('echo', 'a\r\nb')
return redis.call('publish', 'c', 'm')
return redis.replicate_commands()
`), "\n")

// TestScriptsAgreeWithRedis runs the cases here and there. Errors are compared by their code, except for the place that they name,
// and where the interpreters word them differently.
func TestScriptsAgreeWithRedis(t *testing.T) {
	for _, proto := range []int{2, 3} {
		ours, theirs := newServer(t).dial(proto), dial(t, "unix", oracle(t), proto)
		theirs.do("FLUSHALL")
		same := 0
		for _, body := range scriptCases {
			cmd := []string{"EVAL", body, "2", "k1", "k2", "a", "7", "3.5"}
			got, want := ours.do(cmd...), theirs.do(cmd...)
			if got == want {
				same++
				continue
			}
			if got[0] == '-' && want[0] == '-' && luaWords(got, want) {
				continue
			}
			t.Errorf("RESP%d %s:\n\tgot  %q\n\twant %q", proto, body, got, want)
		}
		t.Logf("RESP%d: %d of %d the same to the byte", proto, same, len(scriptCases))
		if same < len(scriptCases)*8/10 {
			t.Errorf("only %d of %d are the same to the byte", same, len(scriptCases))
		}
	}
}

// luaWords reports whether two errors are both the interpreter's, at the same line, in other words.
func luaWords(a, b string) bool {
	const place = "-ERR user_script:1: "
	if strings.HasPrefix(a, "-ERR Error compiling script") && strings.HasPrefix(b, "-ERR Error compiling script") {
		return true
	}
	return strings.HasPrefix(a, place) && strings.HasPrefix(b, place)
}
