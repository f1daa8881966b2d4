/* The timeline: rows of bars on a canvas. Only what is in sight is drawn, and of bars that share a
 * pixel only one, so a frame costs as much as the window is wide, whatever the trace holds. */
const CALL = 0, SEND = 1, RECV = 2, FOLD = 3, COPY = 4, FIELDS = 10;
const ROW = 18, HEAD = 26, AXIS = 24, GUTTER = 120;
const $ = (id) => document.getElementById(id);

function spanText(ns) {
  const [by, unit] = ns < 1e3 ? [1, 'ns'] : ns < 1e6 ? [1e3, 'us'] : ns < 1e9 ? [1e6, 'ms']
    : [1e9, 's'];
  return `${+(ns / by).toPrecision(4)} ${unit}`;
}

function bytesText(bytes) {
  const [by, unit] = bytes < 1024 ? [1, 'B'] : bytes < 1 << 20 ? [1024, 'KiB'] : [1 << 20, 'MiB'];
  return `${+(bytes / by).toPrecision(4)} ${unit}`;
}

/* A row: its bars as columns of numbers. */
class Row {
  constructor(rank, track, top) {
    Object.assign(this, { rank, name: track.name, top });
    const flat = track.bars, n = flat.length / FIELDS;
    this.n = n;
    this.begin = new Float64Array(n);
    this.end = new Float64Array(n);
    this.flat = flat;
    for (let i = 0, at = 0; i < n; i++) {
      at += flat[i * FIELDS];
      const length = flat[i * FIELDS + 1];
      this.begin[i] = at;
      this.end[i] = at + (length < 0 ? -1 - length : length);
    }
  }

  bar(i) {
    const f = this.flat.slice(i * FIELDS, (i + 1) * FIELDS);
    return { row: this, i, begin: this.begin[i], end: this.end[i], open: f[1] < 0, wait: f[2],
      kind: f[3], who: f[4], size: f[5], number: f[6], slice: f[7], round: f[8], message: f[9] };
  }

  /* The first bar that ends after t; n: none does. */
  after(t) {
    let low = 0, high = this.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.end[middle] > t) high = middle; else low = middle + 1;
    }
    return low;
  }
}

class Timeline {
  constructor(data) {
    this.data = data;
    this.view = $('view');
    this.canvas = this.view.querySelector('canvas');
    this.lay();
    this.from = this.first = data.from;
    this.to = this.last = Math.max(data.span, data.from + 1);
    this.chosen = null;
    this.words();
    this.sums();
    this.listen();
    new ResizeObserver(() => this.fit()).observe(this.view);
    this.fit();
  }

  /* Gives each rank a headline and each of its lanes a row. */
  lay() {
    let top = AXIS;
    this.rows = [];
    this.heads = [];
    this.ends = new Map(); // of messages: two bars each
    for (const rank of this.data.ranks) {
      this.heads.push({ rank, top });
      top += HEAD;
      for (const track of rank.tracks) {
        const row = new Row(rank, track, top);
        this.rows.push(row);
        top += ROW;
        for (let i = 0; i < row.n; i++) {
          const message = row.flat[i * FIELDS + 9];
          if (message) this.ends.set(message, [...(this.ends.get(message) || []), [row, i]]);
        }
      }
    }
    this.height = top + 8;
    $('rest').style.height = `${this.height}px`;
  }

  words() {
    const d = this.data, of = d.ranks.length === d.n ? d.n : `${d.ranks.length} of ${d.n}`;
    $('title').textContent = `${of} ranks, ${spanText(d.span)}`;
    const left = d.leftOut ? ` The last ${spanText(d.span - d.from)}: ${d.leftOut} older bars are `
      + 'left out.' : '';
    const torn = d.ranks.filter((r) => r.torn).map((r) => r.rank);
    $('facts').textContent = `Clocks: ${d.clocks}.${left}`
      + (torn.length ? ` Torn: the traces of ranks ${torn.join(', ')}.` : '');
    document.title = `Gyre: ${$('title').textContent}`;
  }

  sums() {
    const table = make($('sums'), 'table', {}), head = make(make(table, 'thead', {}), 'tr', {});
    for (const word of ['rank', 'calls', 'sent', 'in calls', 'wire', 'adding', 'waiting', ''])
      make(head, 'th', { scope: 'col' }, word);
    const body = make(table, 'tbody', {});
    for (const r of this.data.ranks) {
      const line = make(body, 'tr', {}), all = r.wire + r.fold + r.wait || 1;
      make(line, 'th', { scope: 'row' }, r.rank);
      for (const text of [r.calls, bytesText(r.sent), spanText(r.called), spanText(r.wire),
        spanText(r.fold), spanText(r.wait)]) make(line, 'td', {}, text);
      const shares = make(make(line, 'td', { class: 'share', 'aria-hidden': 'true' }), 'div',
        { class: 'shares' });
      for (const kind of ['wire', 'fold', 'wait']) {
        const part = make(shares, 'i', {});
        part.style.width = `${100 * r[kind] / all}%`;
        part.style.background = `var(--${kind})`;
      }
    }
  }

  /* -- drawing -- */

  fit() {
    const ratio = devicePixelRatio || 1;
    this.width = this.view.clientWidth;
    this.view.style.maxHeight = `${this.height}px`;
    this.tall = this.view.clientHeight;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.tall * ratio;
    this.canvas.style.height = `${this.tall}px`;
    this.pen = this.canvas.getContext('2d');
    this.pen.scale(ratio, ratio);
    this.gutter = Math.min(GUTTER, this.width * 0.3);
    this.draw();
  }

  get wide() { return this.width - this.gutter; }
  x(t) { return this.gutter + (t - this.from) / (this.to - this.from) * this.wide; }
  time(x) { return this.from + (x - this.gutter) / this.wide * (this.to - this.from); }

  draw() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.paint(); });
  }

  colours() {
    const style = getComputedStyle(document.documentElement);
    const of = (name) => style.getPropertyValue(`--${name}`).trim();
    return { panel: of('panel'), ink: of('ink'), dim: of('dim'), line: of('line'), wire: of('wire'),
      fold: of('fold'), wait: of('wait'), raised: of('raised') };
  }

  paint() {
    const pen = this.pen, c = this.colours(), scroll = this.view.scrollTop;
    pen.fillStyle = c.panel;
    pen.fillRect(0, 0, this.width, this.tall);
    pen.textBaseline = 'middle';
    for (const row of this.rows) {
      const y = row.top - scroll;
      if (y > -ROW && y < this.tall) this.paintRow(row, y, c);
    }
    this.paintArrow(c, scroll);
    pen.fillStyle = c.panel;
    pen.fillRect(0, 0, this.gutter - 1, this.tall);
    this.paintNames(c, scroll);
    this.paintAxis(c);
  }

  paintNames(c, scroll) {
    const pen = this.pen;
    pen.textAlign = 'left';
    for (const { rank, top } of this.heads) {
      pen.fillStyle = c.line;
      pen.fillRect(0, top - scroll + 4, this.width, 1);
      pen.fillStyle = c.ink;
      pen.font = '600 12px system-ui, sans-serif';
      pen.fillText(`rank ${rank.rank}, ${rank.host}`, 8, top - scroll + HEAD / 2 + 3);
    }
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'right';
    for (const row of this.rows) {
      pen.fillStyle = this.chosen && this.chosen.row === row ? c.ink : c.dim;
      pen.fillText(row.name, this.gutter - 8, row.top - scroll + ROW / 2, this.gutter - 12);
    }
  }

  paintAxis(c) {
    const pen = this.pen, rough = (this.to - this.from) / Math.max(2, this.wide / 110);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
    pen.fillStyle = c.panel;
    pen.fillRect(0, 0, this.width, AXIS);
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'left';
    for (let t = Math.ceil(this.from / step) * step; t < this.to; t += step) {
      pen.fillStyle = c.line;
      pen.fillRect(this.x(t), 0, 1, AXIS);
      pen.fillStyle = c.dim;
      if (this.x(t) < this.width - 60) pen.fillText(t ? spanText(t) : '0', this.x(t) + 4, AXIS / 2);
    }
  }

  paintRow(row, y, c) {
    const pixel = (this.to - this.from) / this.wide;
    for (let i = row.after(this.from); i < row.n && row.begin[i] < this.to;) {
      this.paintBar(row, i, y, c);
      const next = row.after(Math.max(row.end[i], row.begin[i] + pixel / 2));
      i = Math.max(i + 1, next);
    }
  }

  paintBar(row, i, y, c) {
    const pen = this.pen, kind = row.flat[i * FIELDS + 3], wait = row.flat[i * FIELDS + 2];
    const left = Math.max(this.gutter, this.x(row.begin[i]));
    const moves = Math.max(left, this.x(row.begin[i] + wait));
    const right = Math.min(this.width, this.x(row.end[i]));
    pen.fillStyle = c.wait;
    if (moves > left) pen.fillRect(left, y + ROW / 2 - 1, moves - left, 2);
    pen.globalAlpha = kind === COPY ? 0.55 : 1;
    pen.fillStyle = kind === CALL ? c.line : kind < FOLD ? c.wire : c.fold;
    pen.fillRect(moves, y + 2, Math.max(1, right - moves - (right - moves > 3 ? 0.5 : 0)), ROW - 4);
    pen.globalAlpha = 1;
    if (this.chosen && this.chosen.row === row && this.chosen.i === i) {
      pen.strokeStyle = c.ink;
      pen.lineWidth = 2;
      pen.strokeRect(left, y + 1, Math.max(2, right - left), ROW - 2);
    }
    if (kind === CALL && right - left > 40) this.paintLabel(row, i, left, right, y, c);
  }

  paintLabel(row, i, left, right, y, c) {
    const pen = this.pen;
    pen.save();
    pen.beginPath();
    pen.rect(left, y, right - left - 3, ROW);
    pen.clip();
    pen.fillStyle = c.ink;
    pen.font = '11px system-ui, sans-serif';
    pen.textAlign = 'left';
    pen.fillText(this.data.labels[row.flat[i * FIELDS + 4]], left + 4, y + ROW / 2);
    pen.restore();
  }

  /* From the send to the receive of the chosen message. */
  paintArrow(c, scroll) {
    const pair = this.chosen && this.ends.get(this.chosen.message);
    if (!pair || pair.length < 2) return;
    const ends = pair.map(([row, i]) => row.bar(i)).sort((a, b) => a.kind - b.kind), pen = this.pen;
    const [x0, y0] = [this.x(ends[0].begin + ends[0].wait), ends[0].row.top - scroll + ROW / 2];
    const [x1, y1] = [this.x(ends[1].end), ends[1].row.top - scroll + ROW / 2];
    pen.strokeStyle = pen.fillStyle = c.ink;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x0, y0);
    pen.bezierCurveTo(x0 + 24, y0, x1 - 24, y1, x1, y1);
    pen.stroke();
    pen.beginPath();
    pen.arc(x1, y1, 3.5, 0, 7);
    pen.fill();
  }

  /* -- what is in sight -- */

  look(from, to) {
    const whole = this.last - this.first, span = Math.min(whole, Math.max(50, to - from));
    this.from = Math.max(this.first, Math.min(this.last - span, from));
    this.to = this.from + span;
    this.draw();
  }

  zoomBy(factor, at = (this.from + this.to) / 2) {
    this.look(at - (at - this.from) / factor, at + (this.to - at) / factor);
  }

  moveBy(part) {
    const by = (this.to - this.from) * part;
    this.look(this.from + by, this.to + by);
  }

  /* -- one bar -- */

  choose(row, i) {
    this.chosen = row && i >= 0 && i < row.n ? row.bar(i) : null;
    if (this.chosen) this.bringInSight();
    $('bar-facts').textContent = this.chosen ? this.barText(this.chosen) : '';
    this.draw();
  }

  bringInSight() {
    const { begin, end, row } = this.chosen, span = this.to - this.from;
    const middle = (begin + end) / 2;
    if (end < this.from || begin > this.to) this.look(middle - span / 2, middle + span / 2);
    const y = row.top - this.view.scrollTop;
    if (y < AXIS || y > this.tall - ROW) this.view.scrollTop = row.top - this.tall / 2;
  }

  barText(b) {
    const long = b.open ? 'not ended' : spanText(b.end - b.begin), at = `at ${spanText(b.begin)}`;
    const who = `Rank ${b.row.rank.rank}, ${b.row.name}`;
    if (b.kind === CALL)
      return `${who}: ${this.data.labels[b.who]}, number ${b.number}, ${at}, ${long}.`;
    const what = b.kind === SEND ? `send to ${b.who}` : b.kind === RECV ? `receive from ${b.who}`
      : b.kind === FOLD ? 'adding' : 'copying';
    const waits = b.wait ? `, of which ${spanText(b.wait)} waiting for rank ${b.who}` : '';
    return `${who}: ${what}, ${bytesText(b.size)}, ${at}, ${long}${waits}. Number ${b.number}, `
      + `slice ${b.slice}, round ${b.round}.`;
  }

  stepBar(by) {
    const now = this.chosen;
    if (now) return this.choose(now.row, this.within(now.row, now.i + by));
    const row = this.rows.find((r) => r.n);
    if (row) this.choose(row, this.within(row, row.after(this.from)));
  }

  within(row, i) { return Math.max(0, Math.min(row.n - 1, i)); }

  stepRow(by) {
    if (!this.chosen) return this.stepBar(0);
    const middle = (this.chosen.begin + this.chosen.end) / 2;
    for (let r = this.rows.indexOf(this.chosen.row) + by; this.rows[r]; r += by) {
      const row = this.rows[r];
      if (row.n) return this.choose(row, this.within(row, row.after(middle)));
    }
  }

  otherEnd() {
    const pair = (this.chosen && this.ends.get(this.chosen.message)) || [];
    const other = pair.find(([row, i]) => row !== this.chosen.row || i !== this.chosen.i);
    if (other) this.choose(...other);
  }

  at(event) {
    const box = this.view.getBoundingClientRect(), x = event.clientX - box.left;
    const y = event.clientY - box.top + this.view.scrollTop;
    const row = this.rows.find((r) => y >= r.top && y < r.top + ROW);
    const near = 3 * (this.to - this.from) / this.width, t = this.time(x);
    const i = row ? row.after(t - near) : -1;
    return x > this.gutter && row && i < row.n && row.begin[i] < t + near ? [row, i] : [null, -1];
  }

  /* -- hands -- */

  listen() {
    $('zoom-in').addEventListener('click', () => this.zoomBy(2));
    $('zoom-out').addEventListener('click', () => this.zoomBy(0.5));
    $('whole').addEventListener('click', () => this.look(this.first, this.last));
    $('theme').addEventListener('click', () => this.theme());
    matchMedia('(prefers-color-scheme: light)').addEventListener('change', () => this.draw());
    this.view.addEventListener('scroll', () => this.draw());
    this.view.addEventListener('wheel', (event) => this.wheel(event), { passive: false });
    this.view.addEventListener('pointerdown', (event) => this.drag(event));
    document.addEventListener('keydown', (event) => this.press(event));
  }

  wheel(event) {
    const box = this.view.getBoundingClientRect();
    if (event.ctrlKey || event.metaKey)
      this.zoomBy(2 ** (-event.deltaY / 200), this.time(event.clientX - box.left));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.moveBy((event.deltaX || event.deltaY) / this.width);
    else return;
    event.preventDefault();
  }

  drag(event) {
    const start = event.clientX, { from, to } = this;
    let moved = false;
    const move = (e) => {
      moved = moved || Math.abs(e.clientX - start) > 4;
      const by = (start - e.clientX) / this.wide * (to - from);
      if (moved) this.look(from + by, to + by);
    };
    const up = (e) => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', up);
      if (!moved) this.choose(...this.at(e));
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', up);
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.matches('button, summary') && [' ', 'Enter'].includes(event.key)) return;
    const act = {
      '+': () => this.zoomBy(2), '=': () => this.zoomBy(2), '-': () => this.zoomBy(0.5),
      a: () => this.moveBy(-0.25), d: () => this.moveBy(0.25),
      Home: () => this.look(this.first, this.last),
      ArrowLeft: () => this.stepBar(-1), ArrowRight: () => this.stepBar(this.chosen ? 1 : 0),
      ArrowUp: () => this.stepRow(-1), ArrowDown: () => this.stepRow(1),
      o: () => this.otherEnd(), Escape: () => this.choose(null, -1),
      Enter: () => this.chosen && this.zoomToBar(),
    }[event.key];
    if (!act) return;
    act();
    event.preventDefault();
  }

  zoomToBar() {
    const { begin, end } = this.chosen, room = Math.max(25, (end - begin) / 4);
    this.look(begin - room, end + room);
  }

  theme() {
    turnTheme($('theme'));
    this.draw();
  }
}

window.page = new Timeline(JSON.parse($('data').textContent));
