/* Time: a lane for each rank, drawn by the model of clock.js. All schedules share the scale, so the
 * longer one is the slower one. Zooming makes the drawing wider than its window, which scrolls. */
const DIALS = [ // name; least, most and first power of the base; words
  { key: 'scale', name: 'data', low: 0, high: 30, first: 20, base: 2, say: (v) => bytesText(v) },
  { key: 'latency', name: 'latency', low: -7, high: -3, first: -5, base: 10, step: 0.25,
    say: timeText },
  { key: 'bandwidth', name: 'bandwidth', low: 7, high: 11.25, first: 9, base: 10, step: 0.25,
    say: (v) => (v >= 1e9 ? `${+(v / 1e9).toPrecision(2)} GB/s`
      : `${+(v / 1e6).toPrecision(2)} MB/s`) },
];

class Lanes {
  constructor(schedules, onJump, onTotals) {
    this.schedules = schedules;
    this.onJump = onJump;
    this.onTotals = onTotals;
    this.zoom = 1;
    this.round = 0;
    this.dials();
    this.box = document.getElementById('lane-rows');
    this.strips = schedules.map((s) => this.strip(s));
    this.draw();
    this.listen();
  }

  dials() {
    const box = document.getElementById('dials');
    this.dial = {};
    for (const d of DIALS) {
      const label = make(box, 'label', {}), input = make(null, 'input', { type: 'range', min: d.low,
        max: d.high, step: d.step || 1, value: d.first, id: `dial-${d.key}` });
      make(label, 'span', {}, d.name);
      label.append(input);
      const value = make(label, 'output', {});
      const read = () => {
        this.dial[d.key] = d.base ** input.value;
        value.textContent = d.say(this.dial[d.key]);
      };
      read();
      input.addEventListener('input', () => { read(); this.draw(); });
    }
  }

  strip(schedule) {
    const group = make(this.box, 'div', { class: 'strip' });
    const names = make(group, 'div', { class: 'names', 'aria-hidden': 'true' });
    make(names, 'b', {}, schedule.algorithm);
    for (const rank of schedule.order)
      make(names, 'span', {}, rank).style.setProperty('--own', hue(rank, schedule.n));
    const window = make(group, 'div', { class: 'window', tabindex: 0, role: 'img' });
    const axis = make(window, 'div', { class: 'axis' });
    const rows = draw(window, 'svg', { class: 'rows', preserveAspectRatio: 'none' });
    return { schedule, window, axis, rows, names };
  }

  draw() {
    const { latency, bandwidth, scale } = this.dial;
    const models = this.schedules.map((s) =>
      modelTime(s, latency, bandwidth, scale / Math.max(1, this.data(s))));
    this.longest = Math.max(...models.map((m) => m.total));
    this.strips.forEach((strip, i) => this.drawStrip(strip, models[i]));
    this.onTotals(models.map((m) => m.total));
    this.show(this.round);
  }

  /* The bytes of the data that the schedule moves: its largest buffer. */
  data(s) {
    return Math.max(...s.ranks.map((r) => Math.max(r.input || 0, r.output || 0)));
  }

  drawStrip(strip, model) {
    const s = strip.schedule, unit = 10000 / this.longest, row = s.n > 16 ? 10 : s.n > 8 ? 16 : 22;
    const place = s.order.reduce((map, rank, i) => { map[rank] = i; return map; }, []);
    strip.rows.setAttribute('viewBox', `0 0 10000 ${s.n * row}`);
    strip.names.style.setProperty('--row', `${row}px`);
    strip.rows.style.height = `${s.n * row}px`;
    strip.rows.textContent = '';
    strip.bars = s.rounds.map(() => []);
    for (const bar of model.bars) {
      const shape = draw(strip.rows, 'rect', { class: bar.kind, x: fixed(bar.from * unit),
        width: Math.max(bar.kind === 'wait' ? 0 : 4, (bar.to - bar.from) * unit - 6).toFixed(1),
        y: place[bar.rank] * row + (bar.kind === 'wait' ? row / 2 - 0.75 : row * 0.14),
        height: bar.kind === 'wait' ? 1.5 : row * 0.72, rx: 0 });
      shape.dataset.round = bar.round;
      strip.bars[bar.round].push(shape);
    }
    strip.total = model.total;
    strip.window.setAttribute('aria-label',
      `${s.algorithm}: ${timeText(model.total)} by the model, ${s.rounds.length} rounds`);
    this.drawAxis(strip);
  }

  drawAxis(strip) {
    const rough = this.longest / (5 * this.zoom), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((k) => k * power).find((k) => k >= rough);
    strip.axis.textContent = '';
    for (let t = 0; t <= this.longest * (1 - 0.06 / this.zoom); t += step) {
      const mark = make(strip.axis, 'span', {}, t === 0 ? '0' : timeText(t));
      mark.style.left = `${100 * t / this.longest}%`;
    }
    const end = make(strip.axis, 'i', {});
    end.style.width = `${100 * strip.total / this.longest}%`;
    for (const part of [strip.axis, strip.rows]) part.style.width = `${100 * this.zoom}%`;
  }

  show(round) {
    this.round = round;
    for (const strip of this.strips) {
      strip.bars.forEach((bars, r) => {
        const state = r < round ? 'past' : r === round ? 'now' : '';
        if (bars.state !== state)
          for (const bar of bars)
            bar.setAttribute('class', `${bar.getAttribute('class').split(' ')[0]} ${state}`);
        bars.state = state;
      });
      this.keepInSight(strip, round);
    }
  }

  keepInSight(strip, round) {
    const bar = (strip.bars[round] || [])[0], box = strip.window;
    if (!bar || this.zoom === 1) return;
    const x = bar.x.baseVal.value / 10000 * strip.rows.clientWidth;
    if (x < box.scrollLeft || x > box.scrollLeft + box.clientWidth * 0.85)
      box.scrollLeft = x - box.clientWidth * 0.15;
  }

  zoomBy(factor, at = 0.5) {
    const zoom = Math.max(1, Math.min(64, this.zoom * factor)), ratio = zoom / this.zoom;
    this.zoom = zoom;
    for (const strip of this.strips) {
      const box = strip.window, x = box.scrollLeft + at * box.clientWidth;
      this.drawAxis(strip);
      box.scrollLeft = x * ratio - at * box.clientWidth;
    }
  }

  listen() {
    document.getElementById('zoom-in').addEventListener('click', () => this.zoomBy(2));
    document.getElementById('zoom-out').addEventListener('click', () => this.zoomBy(0.5));
    for (const { window, rows } of this.strips) {
      window.addEventListener('wheel', (event) => {
        if (!event.ctrlKey && !event.metaKey) return;
        event.preventDefault();
        const box = window.getBoundingClientRect();
        this.zoomBy(2 ** (-event.deltaY / 200), (event.clientX - box.left) / box.width);
      }, { passive: false });
      rows.addEventListener('click', (event) => {
        const round = event.target.dataset.round;
        if (round !== undefined) this.onJump(Number(round));
      });
    }
  }
}
