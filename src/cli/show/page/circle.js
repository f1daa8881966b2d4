/* The circle: a sector for each rank, clockwise from noon, node by node.
 *
 *     rim        the rank's INPUT, in its hue
 *     OUTPUT     a cell for each piece, the first outside: one radius is one piece on all ranks
 *     SCRATCH    further inside
 *     hub        messages fly through it as pies of what they carry
 *
 * So an algorithm has a figure: the ring's is a spiral, doubling's a folding fan. */
const RIM = 456, LABEL = 480, HUB = 200;

class Circle {
  constructor(parent, schedule, onFollow) {
    this.schedule = schedule;
    this.box = parent;
    this.svg = draw(parent, 'svg', { viewBox: '-512 -512 1024 1024', class: 'circle', role: 'group',
      'aria-label': `${schedule.n} ranks in a circle` });
    this.place();
    this.center = draw(this.svg, 'text', { class: 'center', y: 14 });
    this.links = draw(this.svg, 'g', { class: 'links' });
    this.cells = [];
    this.groups = schedule.ranks.map((_, rank) => this.drawRank(rank, onFollow));
    /* What moves lies in a drawing of its own, so that nothing else is painted again. */
    const over = draw(parent, 'svg', { viewBox: '-512 -512 1024 1024', class: 'circle over',
      'aria-hidden': 'true' });
    this.lights = draw(over, 'g', { class: 'lights' });
    this.pies = draw(over, 'g', { class: 'pies' });
    this.drawLinks();
    this.shown = -1;
    this.flights = [];
    const at = /rank (\d+), round (\d+)/.exec(schedule.defect || '');
    this.defect = at ? { rank: Number(at[1]), round: Number(at[2]) } : null;
  }

  /* -- places -- */

  place() {
    const s = this.schedule, n = s.n;
    const gap = Math.min(0.035, 0.9 / n), nodeGap = s.nodes > 1 ? 0.11 : 0;
    const width = (2 * Math.PI - s.nodes * nodeGap) / n;
    this.angle = new Array(n);
    this.nodeArcs = [];
    let at = -width / 2, node = -1;
    for (const rank of s.order) {
      const own = s.ranks[rank].node;
      if (own !== node && node !== -1) at += nodeGap;
      if (own !== node) this.nodeArcs.push([own, at, at]);
      node = own;
      this.angle[rank] = [at + gap / 2, at + width - (n === 1 ? 0.02 : gap / 2)];
      at += width;
      this.nodeArcs[this.nodeArcs.length - 1][2] = at;
    }
    const size = (buffer) => (s.cells[buffer].length ? s.cells[buffer].at(-1).to : 0);
    const share = size('SCRATCH') / (size('SCRATCH') + size('OUTPUT') || 1);
    const edge = size('SCRATCH') ? 216 + 208 * Math.max(0.36, Math.min(0.5, share)) : 206;
    const inputs = Math.max(...s.ranks.map((r) => (r.input || 0) / s.element), 1);
    this.rimNumbers = this.namesNumbers()
      && this.numberSize(426, RIM, width, inputs, s.digits.INPUT) > 11;
    const rim = this.rimNumbers ? 426 : 441;
    this.band = { INPUT: [rim, RIM], OUTPUT: [edge + 10, rim - 8], SCRATCH: [216, edge] };
  }

  /* Degrees that turn a text along the circle, never upside down. */
  upright(angle) { return angle * 180 / Math.PI + (Math.cos(angle) < -0.01 ? 180 : 0); }

  middle(rank) { return (this.angle[rank][0] + this.angle[rank][1]) / 2; }

  /* The radii of bytes from … to - 1 of a buffer, the first outside. */
  radii(buffer, from, to) {
    const [low, high] = this.band[buffer], cells = this.schedule.cells[buffer];
    if (buffer === 'INPUT' || !cells.length) return [low, high];
    const size = cells[cells.length - 1].to, scale = (high - low) / size;
    return [high - to * scale, high - from * scale];
  }

  centre(rank, buffer, offset, length, shift) {
    const [r0, r1] = this.radii(buffer, offset, offset + length), [a0, a1] = this.angle[rank];
    return [(r0 + r1) / 2, (a0 + a1) / 2 + (shift || 0) * (a1 - a0)];
  }

  /* -- what stays -- */

  drawRank(rank, onFollow) {
    const s = this.schedule, [a0, a1] = this.angle[rank];
    const g = draw(this.svg, 'g', { class: 'rank', 'data-rank': rank, role: 'button', tabindex: 0,
      'aria-pressed': 'false', 'aria-label': `Follow rank ${rank}` });
    const [low, high] = this.band.INPUT, input = s.ranks[rank].input;
    draw(g, 'path', { fill: input === null ? 'none' : hue(rank, s.n), class: 'rim',
      d: sector(low, high, a0, a1) });
    if (input && this.rimNumbers)
      this.arcNumbers(g, low, high, a0, a1, s.states[0][rank]['INPUT#'], s.digits.INPUT);
    const [x, y] = point(LABEL, this.middle(rank));
    const name = draw(g, 'text', { x: fixed(x), y: fixed(y), class: 'rank-name' },
      s.n <= 8 ? `rank ${rank}` : rank);
    name.style.rotate = s.n <= 8 ? `${this.upright(this.middle(rank))}deg` : '';
    this.cells[rank] = {};
    for (const buffer of ['OUTPUT', 'SCRATCH'])
      this.cells[rank][buffer] = s.cellsOf(rank, buffer)
        .map((cell) => this.drawCell(g, rank, buffer, cell));
    g.addEventListener('click', () => onFollow(rank));
    g.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') { onFollow(rank); event.preventDefault(); }
    });
    return g;
  }

  drawCell(g, rank, buffer, cell) {
    let [r0, r1] = this.radii(buffer, cell.from, cell.to);
    const trim = Math.min(1.5, (r1 - r0) / 6);
    r0 += trim; r1 -= trim;
    const [a0, a1] = this.angle[rank], holder = draw(g, 'g', { class: 'cell' });
    draw(holder, 'path', { d: sector(r0, r1, a0, a1), class: 'empty' });
    const entry = { holder, content: draw(holder, 'g'), r0, r1, a0, a1, cell, value: -1 };
    entry.numbered = this.namesNumbers() && this.numberSize(this.edge(entry), r1, a1 - a0,
      (cell.to - cell.from) / this.schedule.element, this.schedule.digits[buffer]) > 0;
    return entry;
  }

  drawLinks() {
    const s = this.schedule, seen = new Set();
    for (const [, a0, a1] of s.nodes > 1 ? this.nodeArcs : [])
      draw(this.links, 'path', { class: 'node', d: sector(500, 503, a0 + 0.02, a1 - 0.02) });
    for (let round = 0; round < s.rounds.length; round++)
      for (const [rank, step] of s.sends(round)) {
        const key = Math.min(rank, step.peer) * s.n + Math.max(rank, step.peer);
        if (step.peer >= s.n || seen.has(key)) continue;
        seen.add(key);
        const far = s.ranks[rank].node !== s.ranks[step.peer].node;
        draw(this.links, 'path', { d: this.chord(rank, step.peer).d, class: far ? 'far' : '' });
      }
  }

  /* From the edge of the hub to another place there, bent towards the middle; on its right-hand
   * side, so that two ways do not lie on each other. */
  chord(from, to) {
    const turn = (a) => Math.abs(Math.atan2(Math.sin(a), Math.cos(a))) / Math.PI;
    const wide = this.angle[from][1] - this.angle[from][0], side = Math.min(0.05, wide * 0.1);
    const a = this.middle(from) + side, b = this.middle(to) - side;
    const p = point(HUB, a), q = point(HUB, b), pull = 0.78 - 0.72 * turn(b - a);
    const mid = [(p[0] + q[0]) / 2 * pull - (q[1] - p[1]) * 0.06,
      (p[1] + q[1]) / 2 * pull + (q[0] - p[0]) * 0.06];
    return { p, mid, q, d: `M${p.map(fixed)}Q${mid.map(fixed)} ${q.map(fixed)}` };
  }

  /* -- a round -- */

  fillCell(rank, buffer, index, fresh) {
    const s = this.schedule, entry = this.cells[rank][buffer][index], value = entry.value;
    entry.content.textContent = '';
    entry.holder.classList.toggle('whole', s.isWhole(value));
    if (value < 0) return;
    const step = (entry.a1 - entry.a0) / s.n;
    const r1 = this.besideNumbers(entry) ? this.edge(entry) : entry.r1;
    for (const [slot, slots, fill] of lit(s, s.members[value], s.isWhole(value)))
      draw(entry.content, 'path', { fill,
        d: sector(entry.r0, r1, entry.a0 + slot * step, entry.a0 + (slot + slots) * step) });
    if (fresh) arrive(entry.content);
  }

  writeNumbers(rank, buffer, index, numbers) {
    const entry = this.cells[rank][buffer][index], element = this.schedule.element;
    const list = numbers.slice(entry.cell.from / element, entry.cell.to / element);
    if (list.some((number) => number !== null))
      this.arcNumbers(entry.content, this.besideNumbers(entry) ? this.edge(entry) : entry.r0,
        entry.r1, entry.a0, entry.a1, list, this.schedule.digits[buffer]);
  }

  /* Slots lie inside the numbers: a number does not belong to the slot that it would lie on. */
  besideNumbers(entry) {
    const s = this.schedule, { value } = entry;
    return entry.numbered && s.reduces && value >= 0 && !s.isWhole(value);
  }

  edge(entry) { return entry.r0 + 0.34 * (entry.r1 - entry.r0); }

  namesNumbers() { return this.schedule.hasNumbers && this.schedule.n <= 8; }

  /* The size at which so many numbers fit an arc; 0 where they could not be read. */
  numberSize(r0, r1, angle, count, digits) {
    const room = (r0 + r1) / 2 * angle / count;
    const size = Math.min(22, (r1 - r0) * 0.66, room / (0.62 * digits + 0.9));
    return size < 10 ? 0 : size;
  }

  arcNumbers(g, r0, r1, a0, a1, list, digits) {
    const r = (r0 + r1) / 2, size = this.numberSize(r0, r1, a1 - a0, list.length, digits);
    if (!size) return;
    list.forEach((number, i) => {
      const a = a0 + (i + 0.5) / list.length * (a1 - a0), [x, y] = point(r, a);
      draw(g, 'text', { class: 'number', 'font-size': fixed(size),
        transform: `translate(${fixed(x)} ${fixed(y)}) rotate(${fixed(this.upright(a))})` },
      number === null ? '·' : number);
    });
  }

  show(round) {
    const s = this.schedule, next = round === this.shown + 1;
    round = Math.min(round, s.rounds.length);
    if (round === this.shown) return this.endFlight();
    this.shown = round;
    for (let rank = 0; rank < s.n; rank++)
      for (const buffer of ['OUTPUT', 'SCRATCH']) this.showBuffer(round, rank, buffer, next);
    if (this.defect)
      this.groups[this.defect.rank].classList.toggle('broken', round >= this.defect.round);
    this.center.textContent = '';
    draw(this.center, 'tspan', { class: 'center-round' }, round);
    draw(this.center, 'tspan', { class: 'center-of', x: 0, dy: 38 },
      `of ${s.rounds.length} round${s.rounds.length === 1 ? '' : 's'}`);
    this.endFlight();
  }

  showBuffer(round, rank, buffer, next) {
    const s = this.schedule, state = s.states[round][rank], key = buffer + '#';
    this.cells[rank][buffer].forEach((entry, i) => {
      const numbers = s.hasNumbers ? state[key] : null, element = s.element;
      const text = numbers
        ? numbers.slice(entry.cell.from / element, entry.cell.to / element).join() : '';
      if (entry.value === state[buffer][i] && entry.text === text) return;
      entry.value = state[buffer][i];
      entry.text = text;
      this.fillCell(rank, buffer, i, next);
      if (entry.numbered) this.writeNumbers(rank, buffer, i, numbers);
    });
  }

  /* -- motion -- */

  endFlight() {
    this.flights = [];
    this.flying = -1;
    this.pies.textContent = '';
    this.lights.textContent = '';
  }

  radius(length) {
    const most = Math.max(6.5, Math.min(17, HUB * 2.2 / this.schedule.n));
    return Math.max(most * 0.55, most * Math.sqrt(length / this.largest(this.flying)));
  }

  largest(round) {
    let most = 1;
    for (const [, step] of this.schedule.steps(round)) most = Math.max(most, step.length);
    return most;
  }

  begin(round) {
    this.endFlight();
    this.flying = round;
    const s = this.schedule;
    for (const [rank, step] of s.steps(round)) {
      if (step.kind === 'SEND') this.launch(round, rank, step);
      if (step.sources) this.fold(round, rank, step);
    }
  }

  launch(round, rank, step) {
    const s = this.schedule, recv = (s.rounds[round][step.peer] || [])
      .find((other) => other.kind === 'RECV' && other.peer === rank);
    const { members, whole } = s.union(round, rank, step.buffer, step.offset, step.length);
    const chord = recv ? this.chord(rank, step.peer) : this.lost(rank);
    const colour = whole ? 'var(--whole)' : hue(members.length === 1 ? members[0] : rank, s.n);
    const radius = this.radius(step.length);
    draw(this.lights, 'path', { d: chord.d, stroke: colour, 'stroke-width': fixed(radius * 0.7),
      'data-rank': rank, 'data-peer': step.peer, class: recv ? '' : 'lost' });
    const g = pie(this.pies, s, members, whole, radius);
    g.dataset.rank = rank; g.dataset.peer = step.peer;
    const from = this.centre(rank, step.buffer, step.offset, step.length);
    const to = recv ? this.centre(step.peer, recv.buffer, recv.offset, recv.length) : null;
    this.flights.push({ g, at: (t) => alongMessage(t, from, chord, to) });
  }

  lost(rank) { /* a message that nobody receives ends in the middle */
    const p = point(HUB, this.middle(rank));
    const q = p.map((x) => x * 0.35), mid = p.map((x) => x * 0.7);
    return { p, mid, q, d: `M${p.map(fixed)}Q${mid.map(fixed)} ${q.map(fixed)}` };
  }

  fold(round, rank, step) {
    const s = this.schedule, k = step.sources.length;
    const to = this.centre(rank, step.buffer, step.offset, step.length);
    step.sources.forEach(([buffer, offset], i) => {
      const { members, whole } = s.union(round, rank, buffer, offset, step.length);
      const shift = k > 1 ? 0.5 * ((i + 0.5) / k - 0.5) : 0;
      const from = this.centre(rank, buffer, offset, step.length, shift);
      const g = pie(this.pies, s, members, whole, this.radius(step.length));
      g.dataset.rank = rank; g.dataset.peer = rank;
      this.flights.push({ g, at: (t) => {
        const e = ease(Math.min(1, t / 0.85));
        return point(from[0] + (to[0] - from[0]) * e, from[1] + (to[1] - from[1]) * e);
      } });
    });
  }

  /* The picture between two rounds: 0 … 1. */
  move(round, t) {
    if (round >= this.schedule.rounds.length) return;
    if (this.flying !== round) this.begin(round);
    for (const flight of this.flights) {
      const [x, y] = flight.at(t);
      flight.g.style.transform = `translate(${fixed(x)}px, ${fixed(y)}px)`;
    }
    this.lights.style.opacity = fixed(Math.min(1, t * 6, (1 - t) * 5));
    this.pies.style.opacity = fixed(Math.min(1, t * 12, (1 - t) * 10));
  }

  follow(rank) {
    this.box.classList.toggle('following', rank !== null);
    this.groups.forEach((g, r) => {
      g.classList.toggle('followed', r === rank);
      g.setAttribute('aria-pressed', String(r === rank));
    });
    let style = this.box.querySelector('style');
    if (!style) style = make(this.box, 'style');
    const own = `[data-rank="${rank}"]`, peer = `[data-peer="${rank}"]`;
    style.textContent = rank === null ? ''
      : `.following .pie:not(${own}):not(${peer}),
         .following .lights path:not(${own}):not(${peer}) { opacity: 0.08 }`;
  }
}

const ease = (t) => (t < 0.5 ? 2 * t * t : 1 - 2 * (1 - t) * (1 - t));

/* Out of the sender's cell to the hub, through it, and into the receiver's cell. */
function alongMessage(t, from, chord, to) {
  const start = point(...from);
  const mix = (a, b, u) => a.map((x, i) => x + (b[i] - x) * u);
  if (t < 0.2) return mix(start, chord.p, ease(t / 0.2));
  if (t < 0.8) {
    const u = ease((t - 0.2) / 0.6), v = 1 - u, { p, mid, q } = chord;
    return p.map((x, i) => v * v * x + 2 * u * v * mid[i] + u * u * q[i]);
  }
  return to ? mix(chord.q, point(...to), ease((t - 0.8) / 0.2)) : chord.q;
}
