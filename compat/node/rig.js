'use strict'
// What the tests of the Node clients share: the server, the variants, counted assertions, the crash.
const { execFile } = require('node:child_process')
const { promisify, inspect, isDeepStrictEqual } = require('node:util')
const fs = require('node:fs')
const os = require('node:os')
const path = require('node:path')

const run = promisify(execFile)
const sleep = ms => new Promise(done => setTimeout(done, ms))
const binary = Buffer.concat([Buffer.from([0, 1, 13, 10, 255, 254]), Buffer.from('$5\r\n*1\r\n'), Buffer.alloc(20)])

async function script (...args) {
  const { stdout } = await run('bash', [path.join(__dirname, '..', 'server.sh'), ...args])
  return stdout.trim()
}

class Server {
  constructor (flags) {
    this.dir = fs.mkdtempSync(path.join(os.tmpdir(), 'cvmstore-compat-'))
    this.flags = flags
    this.port = -1
  }

  async start () { this.port = Number(await script('start', this.dir, String(this.port), ...this.flags)) }
  async kill () { await script('kill', this.dir) }
  async close () {
    await this.kill()
    fs.rmSync(this.dir, { recursive: true })
  }
}

class Check {
  n = 0

  that (what, holds, got) {
    this.n++
    if (!holds) throw new Error(`${what}: got ${inspect(got)}`)
  }

  same (what, got, want) {
    this.n++
    if (!isDeepStrictEqual(got, want)) throw new Error(`${what}: ${inspect(got)}, want ${inspect(want)}`)
  }

  async fails (what, promise, text) {
    this.n++
    let got
    try {
      got = await promise
    } catch (e) {
      if (!String(e.message).includes(text)) throw new Error(`${what}: error ${inspect(e)}, want ${text}`)
      return
    }
    throw new Error(`${what}: ${inspect(got)}, want an error: ${text}`)
  }

  clientInfo (v, info) {
    for (const field of [` db=${v.database} `, ` resp=${v.protocol} `, ` name=${v.name} `, ' user=default ']) {
      this.that('CLIENT INFO has' + field, ` ${info.trim()} `.includes(field), info)
    }
  }

  // Pipelines all the time, kill -9 in the middle of one, a new start. write(from, count) sets keys to their own numbers and
  // returns the numbers of those that were acknowledged. Every acknowledged write must be there.
  async crash (server, write, get) {
    const acked = []
    let cut = 0; let from = 0
    // A kill between two pipelines may cut none: once more then.
    for (let kills = 0; cut === 0 && kills < 5; kills++) {
      [cut, from] = await this.crashOnce(server, write, from, acked)
    }
    this.that('a pipeline was cut by the restart', cut > 0, cut)
    const values = await Promise.all(acked.map(get))
    this.same('every acknowledged write is there', values, acked.map(String))
  }

  // Writes from key from on through one kill; returns how many pipelines that cut, and the next key.
  async crashOnce (server, write, from, acked) {
    const count = 50
    let cut = 0; let written = 0; let after = 0; let restarted = false; let disturbed = null
    const disturb = async () => {
      await sleep(3)
      await server.kill()
      await sleep(200)
      await server.start()
      restarted = true
    }
    const deadline = Date.now() + 60000
    for (; after < 500; from += count) {
      const back = restarted
      const done = await write(from, count)
      acked.push(...done)
      written += done.length
      if (back) after += done.length
      if (done.length < count) {
        cut++
        await sleep(20)
      }
      if (written >= 400 && !disturbed) disturbed = disturb()
      if (Date.now() > deadline) throw new Error('the client does not get back to the server')
    }
    await disturbed
    return [cut, from]
  }
}

// main runs test(check, variant, server) in each variant, every one on a server of its own.
async function main (name, protocols, test) {
  let total = 0
  for (const protocol of protocols) {
    for (const [label, login] of [
      ['', { password: '', database: 0, name: '' }],
      [', password', { password: 'sésame ouvre-toi', database: 0, name: '' }],
      [', user, database, name', { user: 'default', password: 'pw', database: 5, name: 'compat-test' }]
    ]) {
      const v = { protocol, ...login }
      const c = new Check()
      const server = new Server(v.password ? ['--requirepass=' + v.password] : [])
      try {
        await server.start()
        await test(c, v, server)
      } catch (e) {
        console.error(`${name}, RESP${protocol}${label}:`, e)
        try { console.error(fs.readFileSync(path.join(server.dir, 'log'), 'utf8')) } catch {}
        await server.close()
        process.exit(1)
      }
      await server.close()
      if (c.n < 30) throw new Error(`only ${c.n} assertions`)
      total += c.n
      console.log(`${name}, RESP${protocol}${label}: ${c.n} assertions passed`)
    }
  }
  console.log(`${name}: ${total} assertions passed`)
  process.exit(0)
}

// load requires a client under its name in package.json; its version is for the output.
function load (name) {
  const { version } = JSON.parse(fs.readFileSync(path.join(__dirname, 'node_modules', name, 'package.json'), 'utf8'))
  return [require(name), version]
}

module.exports = { main, load, binary, sleep }
