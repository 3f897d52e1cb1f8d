#!/usr/bin/env python3
"""Tests the server with redis-py, Debian's python3-redis, which speaks RESP2.

Starts servers with server.sh. Prints one line a variant, fails on the first wrong answer.
"""
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import redis

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 30
BINARY = b"\x00\x01\r\n\xff\xfe$5\r\n*1\r\n" + b"\x00" * 20


def script(*args):
    return subprocess.run(["bash", os.path.join(HERE, "server.sh"), *args], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Server:
    def __init__(self, *flags):
        self.dir, self.flags, self.port = tempfile.mkdtemp(prefix="cvmstore-compat-"), flags, -1
        self.start()

    def start(self):
        self.port = int(script("start", self.dir, str(self.port), *self.flags))

    def kill(self):
        script("kill", self.dir)

    def close(self):
        self.kill()
        shutil.rmtree(self.dir)


class Check:
    def __init__(self):
        self.n = 0

    def same(self, what, got, want):
        self.n += 1
        assert got == want, f"{what}: {got!r}, want {want!r}"

    def that(self, what, holds, got=None):
        self.n += 1
        assert holds, f"{what}: got {got!r}"

    def fails(self, what, call, kind, text):
        self.n += 1
        try:
            got = call()
        except kind as e:
            assert text in str(e), f"{what}: error {e!r}, want {text!r}"
        else:
            raise AssertionError(f"{what}: {got!r}, want an error: {text}")


def strings(c, r):
    c.same("PING", r.ping(), True)
    c.same("ECHO", r.echo(BINARY), BINARY)
    c.same("SET", r.set("bin", BINARY), True)
    c.same("GET", r.get("bin"), BINARY)
    c.same("GET of a missing key", r.get("missing"), None)
    c.same("SET EX", r.set("ttl", "", ex=3600), True)
    c.that("TTL", 3500 < r.ttl("ttl") <= 3600, r.ttl("ttl"))
    c.same("SET NX", r.set("ttl", "x", nx=True), None)
    c.same("SET XX GET", r.set("bin", "new", xx=True, get=True), BINARY)
    c.same("INCRBY", r.incrby("n", 41), 41)
    c.same("INCR", r.incr("n"), 42)
    c.same("INCRBYFLOAT", r.incrbyfloat("f", 2.5), 2.5)
    c.fails("INCR of a text", lambda: r.incr("bin"), redis.ResponseError, "value is not an integer or out of range")
    c.same("APPEND", r.append("n", "0"), 3)
    c.same("GETRANGE", r.getrange("n", -2, -1), b"20")
    c.same("SETRANGE", r.setrange("n", 5, "x"), 6)
    c.same("GETEX", r.getex("n", px=100000), b"420\0\0x")
    c.same("GETDEL", r.getdel("n"), b"420\0\0x")
    c.same("MSET", r.mset({"a": 1, "b": 2}), True)
    c.same("MGET", r.mget("a", "none", "b"), [b"1", None, b"2"])
    c.same("MSETNX", r.msetnx({"b": 3, "c": 3}), False)
    c.same("SETBIT", r.setbit("bits", 7, 1), 0)
    c.same("BITCOUNT", r.bitcount("bits"), 1)
    c.same("BITOP", r.bitop("NOT", "bits2", "bits"), 1)
    c.same("BITFIELD", r.bitfield("bits").incrby("u8", 0, 254).overflow("FAIL").incrby("u8", 0, 1).execute(), [255, None])


def keys(c, r):
    c.same("EXISTS", r.exists("a", "b", "a", "none"), 3)
    c.same("TYPE", r.type("a"), b"string")
    c.same("EXPIRE GT", r.expire("ttl", 60, gt=True), False)
    c.same("EXPIRE LT", r.expire("ttl", 60, lt=True), True)
    c.that("EXPIRETIME", 50 < r.expiretime("ttl") - time.time() <= 61)
    c.same("PERSIST", r.persist("ttl"), True)
    c.same("RENAME", r.rename("a", "z"), True)
    c.same("COPY", r.copy("z", "copy", replace=True), True)
    c.same("OBJECT ENCODING", r.object("encoding", "z"), b"int")
    c.that("RESTORE", r.restore("back", 0, r.dump("z"), replace=True) in (b"OK", True))
    c.same("GET of what was restored", r.get("back"), b"1")
    c.same("DEL", r.delete("z", "none"), 1)
    c.same("UNLINK", r.unlink("b"), 1)
    pipe = r.pipeline(transaction=False)
    for i in range(500):
        pipe.set(f"scan:{i}", i)
    c.same("500 SETs in a pipeline", pipe.execute(), [True] * 500)
    c.same("SCAN", {k for k in r.scan_iter("scan:*", count=50, _type="string")}, {b"scan:%d" % i for i in range(500)})
    c.same("KEYS", len(r.keys("scan:49?")), 10)


def pipelines(c, r):
    pipe = r.pipeline(transaction=False)
    for _ in range(50):
        pipe.incr("count")
    pipe.incr("bin").get("missing").get("count")
    replies = pipe.execute(raise_on_error=False)
    c.same("INCRs in a pipeline", replies[:50], list(range(1, 51)))
    c.that("an error in a pipeline", isinstance(replies[50], redis.ResponseError), replies[50])
    c.same("what follows the error", replies[51:], [None, b"50"])


def connection(c, r, name, db):
    info = r.client_info()
    c.same("CLIENT INFO: db", int(info["db"]), db)
    c.same("CLIENT INFO: name", info["name"], name or "")
    c.same("CLIENT INFO: user", info["user"], "default")
    c.same("CLIENT INFO: resp", int(info["resp"]), 2)


def server(c, r):
    status = r.execute_command("CVM.STATUS")
    status = dict(zip(status[::2], status[1::2]))
    c.same("CVM.STATUS", status[b"failure"], b"none")
    with r.client() as one:
        for level in (b"everysec", b"durable", b"fresh"):
            c.that("CVM.DURABILITY", one.execute_command("CVM.DURABILITY", level) in (b"OK", True))
            c.same("CVM.DURABILITY", one.execute_command("CVM.DURABILITY"), level)
        c.fails("CVM.DURABILITY", lambda: one.execute_command("CVM.DURABILITY", "never"), redis.ResponseError, "unknown durability level")
    c.same("CONFIG GET", r.config_get("maxclients"), {"maxclients": "10000"})
    c.that("INFO", "redis_version" in r.info("server"))
    c.that("COMMAND", "get" in r.command())
    c.that("TIME", abs(r.time()[0] - time.time()) < 60)


def crash(c, s, r):
    """Pipelines all the time, kill -9 in the middle of one, a new start; every acknowledged write must be there."""
    acked, cut, at = [], 0, 0
    for _ in range(5):  # a kill between two pipelines may cut none: once more then
        cut, at = crash_once(s, r, acked, at)
        if cut:
            break
    c.that("a pipeline was cut by the restart", cut > 0)
    c.same("every acknowledged write is there", [r.get(f"crash:{i}") for i in acked], [str(i).encode() for i in acked])


def crash_once(s, r, acked, at):
    """Writes from key at on through one kill; returns how many pipelines that cut, and the next key."""
    reached, restarted = threading.Event(), threading.Event()

    def disturb():
        reached.wait()
        time.sleep(0.003)
        s.kill()
        time.sleep(0.2)
        s.start()
        restarted.set()

    helper = threading.Thread(target=disturb)
    helper.start()
    cut, written, after = 0, 0, 0
    deadline = time.time() + 60
    while after < 500:
        batch = range(at, at + 50)
        at += 50
        pipe = r.pipeline(transaction=False)
        for i in batch:
            pipe.set(f"crash:{i}", i)
        try:
            pipe.execute()
            acked += batch
            written += 50
            if restarted.is_set():
                after += 50
        except redis.RedisError:
            cut += 1
            time.sleep(0.02)
        if written >= 400:
            reached.set()
        assert time.time() < deadline, "the client does not get back to the server"
    helper.join()
    return cut, at


def main():
    total = 0
    for label, login, name, db in (
        ("", {}, None, 0),
        (", password", {"password": "sésame ouvre-toi"}, None, 0),
        (", user, database, name", {"username": "default", "password": "pw"}, "compat-test", 5),
    ):
        c = Check()
        password = login.get("password")
        s = Server(*([f"--requirepass={password}"] if password else []))
        try:
            r = redis.Redis(host="127.0.0.1", port=s.port, db=db, client_name=name, **login)
            strings(c, r)
            keys(c, r)
            pipelines(c, r)
            connection(c, r, name, db)
            server(c, r)
            c.same("EXISTS in another database", redis.Redis(host="127.0.0.1", port=s.port, db=3, **login).exists("count"), 0)
            if password:
                c.fails("no password", redis.Redis(host="127.0.0.1", port=s.port).ping, redis.AuthenticationError, "Authentication required")
                wrong = redis.Redis(host="127.0.0.1", port=s.port, password="wrong")
                c.fails("a wrong password", wrong.ping, redis.RedisError, "invalid username-password pair")
            outside = redis.Redis(host="127.0.0.1", port=s.port, db=99, **login)
            c.fails("a database out of range", outside.ping, redis.RedisError, "DB index is out of range")
            crash(c, s, r)
            connection(c, r, name, db)
        except BaseException:
            with open(os.path.join(s.dir, "log"), encoding="utf-8") as log:
                sys.stderr.write(log.read())
            raise
        finally:
            s.close()
        assert c.n >= LEAST
        total += c.n
        print(f"redis-py {redis.__version__}, RESP2{label}: {c.n} assertions passed", flush=True)
    print(f"redis-py {redis.__version__}: {total} assertions passed")


main()
