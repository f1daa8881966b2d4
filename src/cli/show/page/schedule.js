'use strict';
/* One schedule, ready to be shown at any round.
 *
 * A buffer is cut where any step of any rank begins or ends. Between two cuts lies a *cell*, whose
 * bytes have one history. states[r] has what every cell holds before round r: the number of a
 * value, whose set of ranks is values[number], or -1. The tool proved all of it; nothing is
 * computed here but where the cuts are. */
const BUFFERS = ['INPUT', 'OUTPUT', 'SCRATCH'];

class Schedule {
  constructor(data) {
    Object.assign(this, data);
    this.members = data.values.map((ranges) => {
      const list = [];
      for (const [from, to] of ranges) for (let r = from; r < to; r++) list.push(r);
      return list;
    });
    this.order = data.ranks.map((_, r) => r)
      .sort((a, b) => data.ranks[a].node - data.ranks[b].node || a - b);
    this.nodes = new Set(data.ranks.map((rank) => rank.node)).size;
    this.hasNumbers = Boolean(data.ranks[0].numbers);
    this.cut();
    this.play();
    this.measureNumbers();
    this.tellPhases();
  }

  /* The digits of the longest number that a buffer ever holds. */
  measureNumbers() {
    this.digits = {};
    for (const buffer of this.hasNumbers ? BUFFERS : []) {
      const longest = this.states.map((ranks) => ranks.map((state) =>
        state[buffer + '#'].reduce((most, x) => (x === null ? most : Math.max(most, x)), 0)));
      this.digits[buffer] = String(Math.max(...longest.flat())).length;
    }
  }

  size(rank, buffer) { // in bytes; null: the rank has none
    const r = this.ranks[rank];
    return buffer === 'INPUT' ? r.input : buffer === 'OUTPUT' ? r.output : r.scratch || null;
  }

  *steps(round) {
    const ranks = this.rounds[round];
    for (let rank = 0; rank < this.n; rank++) for (const step of ranks[rank]) yield [rank, step];
  }

  cut() {
    const marks = { INPUT: new Set([0]), OUTPUT: new Set([0]), SCRATCH: new Set([0]) };
    const mark = (buffer, from, length) => marks[buffer].add(from).add(from + length);
    for (let rank = 0; rank < this.n; rank++)
      for (const buffer of BUFFERS) marks[buffer].add(this.size(rank, buffer) || 0);
    for (let round = 0; round < this.rounds.length; round++)
      for (const [, step] of this.steps(round)) {
        mark(step.buffer, step.offset, step.length);
        for (const [buffer, offset] of step.sources || []) mark(buffer, offset, step.length);
        for (const [from, to] of step.holds || []) mark(step.buffer, from, to - from);
      }
    this.cells = {};
    for (const buffer of BUFFERS) {
      const at = [...marks[buffer]].sort((a, b) => a - b);
      this.cells[buffer] = at.slice(1).map((end, i) => ({ from: at[i], to: end }));
    }
  }

  /* The cells of a buffer that a rank has. */
  cellsOf(rank, buffer) {
    const size = this.size(rank, buffer) || 0;
    return this.cells[buffer].filter((cell) => cell.to <= size);
  }

  /* The indices of the cells in from … to - 1. */
  cellsIn(buffer, from, to) {
    const found = [];
    this.cells[buffer].forEach((cell, i) => {
      if (cell.from >= from && cell.to <= to) found.push(i);
    });
    return found;
  }

  firstState() {
    return this.ranks.map((rank, r) => {
      const state = {};
      for (const buffer of BUFFERS) {
        const cells = this.cellsOf(r, buffer);
        state[buffer] = cells.map(() => (buffer === 'INPUT' ? r : -1));
        if (this.hasNumbers)
          state[buffer + '#'] = buffer === 'INPUT' ? rank.numbers
            : new Array((this.size(r, buffer) || 0) / this.element).fill(null);
      }
      return state;
    });
  }

  /* A rank's state is shared with the round before where the rank wrote nothing. */
  play() {
    this.states = [this.firstState()];
    for (let round = 0; round < this.rounds.length; round++) {
      const before = this.states[round], after = before.slice();
      for (const [rank, step] of this.steps(round)) {
        if (!step.holds) continue;
        if (after[rank] === before[rank]) after[rank] = { ...before[rank] };
        this.write(after[rank], step);
      }
      this.states.push(after);
    }
  }

  write(state, step) {
    const buffer = step.buffer, values = state[buffer].slice();
    for (const [from, to, value] of step.holds)
      for (const i of this.cellsIn(buffer, from, to)) values[i] = value;
    state[buffer] = values;
    if (!step.numbers) return;
    const numbers = state[buffer + '#'].slice(), first = step.offset / this.element;
    step.numbers.forEach((number, i) => { numbers[first + i] = number; });
    state[buffer + '#'] = numbers;
  }

  isWhole(value) { return this.reduces && value >= 0 && this.members[value].length === this.n; }

  /* Whose data a place holds before a round: every rank in any of its cells. */
  union(round, rank, buffer, offset, length) {
    const state = this.states[round][rank][buffer], set = new Set();
    let whole = true;
    for (const i of this.cellsIn(buffer, offset, offset + length)) {
      if (!(state[i] >= 0)) continue;
      whole = whole && this.isWhole(state[i]);
      for (const r of this.members[state[i]]) set.add(r);
    }
    whole = whole && set.size > 0;
    return { members: [...set].sort((a, b) => a - b), whole };
  }

  sends(round) {
    return [...this.steps(round)].filter(([, step]) => step.kind === 'SEND');
  }

  has(round, ...kinds) {
    for (const [, step] of this.steps(round)) if (kinds.includes(step.kind)) return true;
    return false;
  }

  /* Rounds with messages are what articles count. An all-reduce that sums first and then passes the
   * sums on has two halves with names. */
  tellPhases() {
    let exchanges = 0, sums = 0, sumsFirst = true, parts = true;
    this.phases = this.rounds.map((_, round) => {
      if (this.has(round, 'REDUCE') && exchanges > sums) {
        sums++;
        sumsFirst = sumsFirst && sums === exchanges;
      }
      const sends = this.sends(round);
      parts = parts && sends.every(([, s]) => s.length < this.count * this.element);
      return sends.length ? ++exchanges : 0;
    });
    this.exchanges = exchanges;
    this.halves = this.operation === 'all_reduce' && sumsFirst && sums > 0 && sums < exchanges
      ? { sums, first: parts ? 'reduce-scatter' : 'reduce',
        then: parts ? 'all-gather' : 'broadcast' }
      : null;
    this.busiest = Math.max(...this.ranks.map((r) => r.sent));
  }

  /* What happens in a round, in words. */
  story(round) {
    if (round < 0) return 'Every rank holds its own data.';
    const sends = this.sends(round), k = this.phases[round];
    const folds = [...this.steps(round)].filter(([, s]) => s.kind === 'REDUCE').length;
    if (!sends.length && !folds) return 'Ranks copy their own data.';
    if (!sends.length) return folds === 1 ? 'One rank adds what came to what it has.'
      : `${folds} ranks add what came to what they have.`;
    const bytes = sends.reduce((sum, [, s]) => sum + s.length, 0);
    const what = `${sends.length} message${sends.length === 1 ? '' : 's'}, ${bytesText(bytes)}`;
    const h = this.halves;
    const phase = !h ? '' : k <= h.sums ? ` (${h.first}, step ${k} of ${h.sums})`
      : ` (${h.then}, step ${k - h.sums} of ${this.exchanges - h.sums})`;
    return `Exchange ${k} of ${this.exchanges}${phase}: ${what}.`;
  }

  stepText(step) {
    const place = (b, at) => `${b.toLowerCase()} ${at}…${at + step.length - 1}`;
    const at = place(step.buffer, step.offset);
    if (step.kind === 'SEND') return `sends ${at} to rank ${step.peer}`;
    if (step.kind === 'RECV') return `receives ${at} from rank ${step.peer}`;
    const from = step.sources.map(([b, o]) => place(b, o)).join(' + ');
    return `${step.kind === 'COPY' ? 'copies' : 'adds'} ${from} into ${at}`;
  }
}

/* -- words ------------------------------------------------------------------------------------ */

function bytesText(bytes) {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let i = 0;
  while (bytes >= 1024 && i < 3) { bytes /= 1024; i++; }
  const whole = bytes >= 100 || Number.isInteger(bytes);
  return `${whole ? Math.round(bytes) : bytes.toFixed(1)} ${units[i]}`;
}

function timeText(seconds) {
  const [scale, unit] = seconds >= 1 ? [1, 's'] : seconds >= 1e-3 ? [1e3, 'ms'] : [1e6, 'µs'];
  return `${+(seconds * scale).toPrecision(3)} ${unit}`;
}

function ranksText(members, n) {
  if (members.length === n && n > 1) return `all ${n} ranks`;
  if (members.length === 1) return `rank ${members[0]}`;
  const runs = [];
  for (const r of members) {
    const last = runs[runs.length - 1];
    if (last && last[1] === r - 1) last[1] = r; else runs.push([r, r]);
  }
  const run = ([a, b]) => (a === b ? a : b === a + 1 ? `${a}, ${b}` : `${a}–${b}`);
  return `ranks ${runs.map(run).join(', ')}`;
}
