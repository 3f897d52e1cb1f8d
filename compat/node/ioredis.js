'use strict'
// Tests the server with ioredis; the argument is its name in package.json.
const { main, load, binary } = require('./rig')
const [ioredis, version] = load(process.argv[2] || 'ioredis')
const Redis = ioredis.Redis || ioredis

// Version 5 speaks RESP2 only.
main(`ioredis ${version}`, version.startsWith('5.') ? [2] : [2, 3], async (c, v, server) => {
  const open = change => new Redis({
    host: '127.0.0.1',
    port: server.port,
    username: v.user,
    password: v.password || undefined,
    db: v.database,
    protocol: v.protocol,
    connectionName: v.name || undefined,
    retryStrategy: () => 30,
    maxRetriesPerRequest: 0, // else it hides what happens to a pipeline that is cut
    ...change
  })
  const r = open()
  r.on('error', () => {})
  await new Promise(resolve => r.once('ready', resolve))

  c.same('PING', await r.ping(), 'PONG')
  c.same('ECHO', await r.echoBuffer(binary), binary)
  c.same('SET', await r.set('bin', binary), 'OK')
  c.same('GET', await r.getBuffer('bin'), binary)
  c.same('GET of a missing key', await r.get('missing'), null)
  c.same('SET EX', await r.set('ttl', '', 'EX', 3600), 'OK')
  const ttl = await r.ttl('ttl')
  c.that('TTL', ttl > 3500 && ttl <= 3600, ttl)
  c.same('SET NX', await r.set('ttl', 'x', 'NX'), null)
  c.same('SET XX GET', await r.set('bin', 'new', 'XX', 'GET') !== null, true)
  c.same('INCRBY', await r.incrby('n', 42), 42)
  c.same('INCRBYFLOAT', await r.incrbyfloat('f', 2.5), '2.5')
  await c.fails('INCR of a text', r.incr('bin'), 'ERR value is not an integer or out of range')
  c.same('APPEND', await r.append('n', '0'), 3)
  c.same('GETRANGE', await r.getrange('n', -2, -1), '20')
  c.same('GETEX', await r.getex('n', 'PX', 100000), '420')
  c.same('GETDEL', await r.getdel('n'), '420')
  c.same('MSET', await r.mset({ a: 1, b: 2 }), 'OK')
  c.same('MGET', await r.mget('a', 'none', 'b'), ['1', null, '2'])
  c.same('MSETNX', await r.msetnx('b', 3, 'c', 3), 0)
  c.same('SETBIT', await r.setbit('bits', 7, 1), 0)
  c.same('BITCOUNT', await r.bitcount('bits'), 1)
  c.same('BITFIELD', await r.bitfield('bits', 'INCRBY', 'u8', 0, 254, 'OVERFLOW', 'FAIL', 'INCRBY', 'u8', 0, 1), [255, null])
  c.same('EXISTS', await r.exists('a', 'b', 'none'), 2)
  c.same('TYPE', await r.type('a'), 'string')
  c.same('EXPIRE NX', await r.expire('a', 100, 'NX'), 1)
  c.same('PERSIST', await r.persist('a'), 1)
  c.same('RENAME', await r.rename('a', 'z'), 'OK')
  c.same('COPY', await r.copy('z', 'copy', 'REPLACE'), 1)
  c.same('OBJECT ENCODING', await r.object('ENCODING', 'z'), 'int')
  c.same('RESTORE', await r.restore('back', 0, await r.dumpBuffer('z'), 'REPLACE'), 'OK')
  c.same('DEL', await r.del('z', 'back', 'none'), 2)
  c.same('UNLINK', await r.unlink('b'), 1)

  const fill = r.pipeline()
  for (let i = 0; i < 500; i++) fill.set(`scan:${i}`, i)
  c.same('500 SETs in a pipeline', (await fill.exec()).filter(([e, x]) => e === null && x === 'OK').length, 500)
  const found = new Set()
  for await (const keys of r.scanStream({ match: 'scan:*', count: 50, type: 'string' })) keys.forEach(k => found.add(k))
  c.same('keys found by SCAN', found.size, 500)
  const pipe = r.pipeline()
  for (let i = 0; i < 50; i++) pipe.incr('count')
  const replies = await pipe.incr('bin').get('missing').get('count').exec()
  c.same('INCRs in a pipeline', replies[49], [null, 50])
  c.that('an error in a pipeline', /value is not an integer/.test(replies[50][0]?.message), replies[50])
  c.same('what follows the error', replies.slice(51), [[null, null], [null, '50']])

  c.clientInfo(v, await r.client('INFO'))
  c.same('CLIENT GETNAME', await r.client('GETNAME') || '', v.name)
  const status = await r.call('CVM.STATUS')
  c.same('CVM.STATUS', status[status.indexOf('failure') + 1], 'none')
  r.addBuiltinCommand('cvm.durability')
  for (const level of ['everysec', 'durable', 'fresh']) {
    c.same('CVM.DURABILITY', await r.call('CVM.DURABILITY', level), 'OK')
    c.same('CVM.DURABILITY', await r['cvm.durability'](), level)
  }
  await c.fails('CVM.DURABILITY', r.call('cvm.durability', 'never'), 'ERR unknown durability level')
  c.same('CONFIG GET', await r.config('GET', 'maxclients'), ['maxclients', '10000'])
  c.that('INFO', /redis_version:/.test(await r.info('server')))
  c.that('COMMAND COUNT', await r.command('COUNT') > 50)

  const other = open({ db: 3 })
  c.same('EXISTS in another database', await other.exists('count'), 0)
  other.disconnect()
  if (v.password) {
    const bad = open({ username: undefined, password: 'wrong', retryStrategy: null })
    const errors = []
    bad.on('error', e => errors.push(e.message))
    await c.fails('PING with a wrong password', bad.ping(), '')
    c.that('a wrong password', errors.some(e => e.includes('WRONGPASS')), errors)
    bad.disconnect()
    const none = open({ username: undefined, password: undefined, enableReadyCheck: false, retryStrategy: null })
    none.on('error', () => {})
    await c.fails('PING without the password', none.ping(), 'NOAUTH')
    none.disconnect()
  }

  await c.crash(server, async (from, count) => {
    const pipe = r.pipeline()
    for (let i = from; i < from + count; i++) pipe.set(`crash:${i}`, i)
    const replies = await pipe.exec().catch(() => [])
    return replies.flatMap(([e, x], i) => e === null && x === 'OK' ? [from + i] : [])
  }, i => r.get(`crash:${i}`))
  c.clientInfo(v, await r.client('INFO'))
  r.disconnect()
})
