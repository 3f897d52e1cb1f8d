'use strict';

// Asks for the figures once a second and shows them. Everything is text content: nothing that comes from the server becomes markup.
const $ = (id) => document.getElementById(id);
const text = (id, value) => { const e = $(id); if (e.textContent !== String(value)) e.textContent = value; };
const units = (n) => {
  const names = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (n >= 1024 && i < names.length - 1) { n /= 1024; i++; }
  return (i ? n.toFixed(1) : n) + ' ' + names[i];
};
const number = (n) => Number(n).toLocaleString('en');
const time = (s) => s < 120 ? Math.round(s) + ' s' : s < 7200 ? Math.round(s / 60) + ' min' : s < 172800 ? Math.round(s / 3600) + ' h' : Math.round(s / 86400) + ' d';

function chart(id, caption, points, get, show) {
  const svg = $(id);
  const values = points.map(get);
  const top = Math.max(...values, 1e-9);
  const step = 300 / Math.max(values.length - 1, 1);
  const d = values.map((v, i) => (i ? 'L' : 'M') + (i * step).toFixed(1) + ' ' + (78 - 74 * v / top).toFixed(1)).join('');
  let path = svg.querySelector('path');
  if (!path) { path = document.createElementNS('http://www.w3.org/2000/svg', 'path'); svg.append(path); }
  path.setAttribute('d', d || 'M0 78');
  text('t-' + id.slice(2), caption + ': now ' + show(values.at(-1) || 0) + ', highest ' + show(values.length ? top : 0));
}

function list(id, items, empty) {
  const ul = $(id);
  const want = items.length ? items : [empty];
  if (ul.textContent === want.join('')) return;
  ul.replaceChildren(...want.map((s) => { const li = document.createElement('li'); li.textContent = s; return li; }));
}

function show(s) {
  $('state').dataset.state = s.state;
  text('state', s.state);
  document.title = 'cvmstore: ' + s.state;
  text('version', s.version);
  text('uptime', time((s.now - s.started) / 1000));
  text('mode', s.mode);
  list('raised', s.raised || [], 'None.');
  list('alarms', (s.alarms || []).map((a) => new Date(a.at).toISOString().slice(0, 19).replace('T', ' ') + ' ' + (a.ended ? 'ended: ' : '') + a.text).reverse(), 'None since the start.');
  text('generation', number(s.generation));
  text('epoch', number(s.epoch));
  text('window', number(s.window.operations) + ' changes, ' + s.window.epochs + ' of ' + s.window.epochsMax + ' epochs');
  text('age', s.window.ms + ' ms');
  text('roundtrip', s.counter.roundTripMS + ' ms' + (s.counter.failing ? ', failing' : ''));
  text('lease', s.counter.leaseMS ? (s.counter.leaseLeftMS / 1000).toFixed(1) + ' s left' : 'none (embedded counter)');
  const last = s.points.at(-1) || { ops: 0, wait: 0 };
  text('ops', number(Math.round(last.ops)));
  text('wait', last.wait.toFixed(2) + ' ms');
  text('clients', number(s.clients.connected) + ' of ' + number(s.clients.max));
  text('memory', units(s.memory.used) + (s.memory.max ? ' of ' + units(s.memory.max) : ''));
  const looked = s.cache.hits + s.cache.misses;
  text('cache', looked ? (100 * s.cache.hits / looked).toFixed(1) + ' %' : 'none looked for');
  text('denied', number(s.denied.logins));
  chart('c-ops', 'Commands a second', s.points, (p) => p.ops, (v) => number(Math.round(v)));
  chart('c-wait', 'Milliseconds that replies waited', s.points, (p) => p.wait, (v) => v.toFixed(2));
  chart('c-window', 'Changes not confirmed', s.points, (p) => p.window, (v) => number(Math.round(v)));
  const rows = (s.commands || []).map((c) => {
    const tr = document.createElement('tr');
    for (const v of [c.name, number(c.calls), number(c.failed), c.p50, c.p99]) {
      const td = document.createElement('td');
      td.textContent = v;
      tr.append(td);
    }
    return tr;
  });
  $('commands').replaceChildren(...rows);
  const v = s.space;
  const other = Math.max(v.total - v.free - v.live - v.dead, 0);
  $('map').replaceChildren(...[['live', v.live], ['dead', v.dead], ['other', other]].map(([kind, n]) => {
    const span = document.createElement('span');
    span.className = kind;
    span.style.flexGrow = n;
    return span;
  }), Object.assign(document.createElement('span'), { className: 'free' }));
  $('map').lastChild.style.flexGrow = v.free;
  $('map').setAttribute('aria-label', 'Volume: ' + units(v.live) + ' live, ' + units(v.dead) + ' dead, ' + units(other) + ' other use, ' + units(v.free) + ' free');
  text('live', units(v.live));
  text('dead', units(v.dead));
  text('free', units(v.free));
  text('total', units(v.total));
  text('open', v.open);
  text('listed', v.listed);
}

async function round() {
  const stop = new AbortController();
  const limit = setTimeout(() => stop.abort(), 5000);
  try {
    const r = await fetch(location.origin + '/status.json', { signal: stop.signal, credentials: 'same-origin' });
    if (!r.ok) throw new Error(r.status);
    show(await r.json());
  } catch {
    $('state').dataset.state = 'unreachable';
    text('state', 'unreachable');
  }
  clearTimeout(limit);
  setTimeout(round, document.hidden ? 5000 : 1000);
}
round();
