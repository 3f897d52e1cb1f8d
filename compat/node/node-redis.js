'use strict'
// Tests the server with node-redis; the argument is its name in package.json.
const { main, load, binary } = require('./rig')
const [redis, version] = load(process.argv[2] || 'redis')

main(`node-redis ${version}`, [2, 3], async (c, v, server) => {
  const open = change => redis.createClient({
    username: v.user,
    password: v.password || undefined,
    database: v.database,
    name: v.name || undefined,
    RESP: v.protocol,
    socket: { host: '127.0.0.1', port: server.port, reconnectStrategy: () => 30 },
    disableOfflineQueue: true,
    ...change
  }).on('error', () => {})
  const r = await open().connect()

  c.same('PING', await r.ping(), 'PONG')
  const raw = r.withTypeMapping({ [redis.RESP_TYPES.BLOB_STRING]: Buffer })
  c.same('ECHO', await raw.echo(binary), binary)
  c.same('SET', await r.set('bin', binary), 'OK')
  c.same('GET', await raw.get('bin'), binary)
  c.same('GET of a missing key', await r.get('missing'), null)
  c.same('SET EX', await r.set('ttl', '', { EX: 3600 }), 'OK')
  const ttl = await r.ttl('ttl')
  c.that('TTL', ttl > 3500 && ttl <= 3600, ttl)
  c.same('SET NX', await r.set('ttl', 'x', { NX: true }), null)
  c.same('SET XX GET', await r.set('bin', 'new', { XX: true, GET: true }) !== null, true)
  c.same('INCRBY', await r.incrBy('n', 42), 42)
  c.same('INCRBYFLOAT', await r.incrByFloat('f', 2.5), '2.5')
  await c.fails('INCR of a text', r.incr('bin'), 'ERR value is not an integer or out of range')
  c.same('APPEND', await r.append('n', '0'), 3)
  c.same('GETRANGE', await r.getRange('n', -2, -1), '20')
  c.same('GETEX', await r.getEx('n', { type: 'PX', value: 100000 }), '420')
  c.same('GETDEL', await r.getDel('n'), '420')
  c.same('MSET', await r.mSet({ a: '1', b: '2' }), 'OK')
  c.same('MGET', await r.mGet(['a', 'none', 'b']), ['1', null, '2'])
  c.same('MSETNX', await r.mSetNX({ b: '3', c: '3' }), 0)
  c.same('SETBIT', await r.setBit('bits', 7, 1), 0)
  c.same('BITCOUNT', await r.bitCount('bits'), 1)
  c.same('EXISTS', await r.exists(['a', 'b', 'none']), 2)
  c.same('TYPE', await r.type('a'), 'string')
  c.same('EXPIRE NX', await r.expire('a', 100, 'NX'), 1)
  c.same('PERSIST', await r.persist('a'), 1)
  c.same('RENAME', await r.rename('a', 'z'), 'OK')
  c.same('COPY', await r.copy('z', 'copy', { REPLACE: true }), 1)
  c.same('OBJECT ENCODING', await r.objectEncoding('z'), 'int')
  c.same('RESTORE', await r.restore('back', 0, await raw.dump('z'), { REPLACE: true }), 'OK')
  c.same('DEL', await r.del(['z', 'back', 'none']), 2)
  c.same('UNLINK', await r.unlink('b'), 1)

  const fill = []
  for (let i = 0; i < 500; i++) fill.push(r.set(`scan:${i}`, String(i)))
  c.same('500 SETs in a pipeline', new Set(await Promise.all(fill)), new Set(['OK']))
  const found = new Set()
  for await (const keys of r.scanIterator({ MATCH: 'scan:*', COUNT: 50, TYPE: 'string' })) [].concat(keys).forEach(k => found.add(k))
  c.same('keys found by SCAN', found.size, 500)
  const pipe = []
  for (let i = 0; i < 50; i++) pipe.push(r.incr('count'))
  pipe.push(r.incr('bin'), r.get('missing'), r.get('count'))
  const replies = await Promise.allSettled(pipe)
  c.same('INCRs in a pipeline', replies[49].value, 50)
  c.that('an error in a pipeline', /value is not an integer/.test(replies[50].reason?.message), replies[50])
  c.same('what follows the error', replies.slice(51).map(x => x.value), [null, '50'])

  c.clientInfo(v, await r.sendCommand(['CLIENT', 'INFO']))
  c.same('CLIENT GETNAME', await r.clientGetName() || '', v.name)
  const status = await r.sendCommand(['CVM.STATUS'])
  c.same('CVM.STATUS', v.protocol === 3 ? status.failure : status[status.indexOf('failure') + 1], 'none')
  for (const level of ['everysec', 'durable', 'fresh']) {
    c.same('CVM.DURABILITY', await r.sendCommand(['CVM.DURABILITY', level]), 'OK')
    c.same('CVM.DURABILITY', await r.sendCommand(['CVM.DURABILITY']), level)
  }
  await c.fails('CVM.DURABILITY', r.sendCommand(['CVM.DURABILITY', 'never']), 'ERR unknown durability level')
  c.same('CONFIG GET', { ...await r.configGet('maxclients') }, { maxclients: '10000' })
  c.that('INFO', /redis_version:/.test(await r.info('server')))
  c.that('COMMAND COUNT', await r.commandCount() > 50)

  const once = { socket: { host: '127.0.0.1', port: server.port, reconnectStrategy: false } }
  const other = await open({ database: 3 }).connect()
  c.same('EXISTS in another database', await other.exists('count'), 0)
  other.destroy()
  if (v.password) {
    await c.fails('a wrong password', open({ ...once, username: undefined, password: 'wrong' }).connect(), 'WRONGPASS')
    await c.fails('no password', (async () => {
      const none = await open({ ...once, username: undefined, password: undefined, name: undefined, database: 0 }).connect()
      try { return await none.ping() } finally { none.destroy() }
    })(), 'NOAUTH')
  }
  await c.fails('a database out of range', open({ ...once, database: 99 }).connect(), 'DB index is out of range')

  await c.crash(server, async (from, count) => {
    const writes = []
    for (let i = from; i < from + count; i++) writes.push(r.set(`crash:${i}`, String(i)))
    const replies = await Promise.allSettled(writes)
    return replies.flatMap((x, i) => x.value === 'OK' ? [from + i] : [])
  }, i => r.get(`crash:${i}`))
  c.clientInfo(v, await r.sendCommand(['CLIENT', 'INFO']))
  r.destroy()
})
