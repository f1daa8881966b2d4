/* The memory of all ranks as a table: a row for each rank, a column for each cell, the numbers
 * themselves where there are few. It is what a screen reader reads. */
class Memory {
  constructor(parent, schedule) {
    this.schedule = schedule;
    const box = make(parent, 'div', { class: 'memory', tabindex: 0, role: 'region',
      'aria-label': `Memory of all ranks, ${schedule.algorithm}` });
    this.table = make(box, 'table', {});
    this.buffers = ['OUTPUT', 'SCRATCH'].filter((b) => schedule.cells[b].length);
    if (schedule.hasNumbers && schedule.cells.INPUT.length <= 16) this.buffers.push('INPUT');
    this.head();
    const body = make(this.table, 'tbody', {});
    this.rows = schedule.order.map((rank) => this.row(body, rank));
  }

  /* In letters, so that columns stay as they are when numbers come. */
  widthOf(buffer, cell) {
    const count = (cell.to - cell.from) / this.schedule.element;
    const digits = this.schedule.digits[buffer];
    if (!this.isFew(count)) return 2 * digits + 3;
    return count === 1 ? digits : 2 * digits + 1;
  }

  isFew(count) { return count <= (this.schedule.n <= 8 ? 4 : 2); }

  head() {
    const head = make(make(this.table, 'thead', {}), 'tr', {});
    make(head, 'th', { scope: 'col' }, 'rank');
    for (const buffer of this.buffers)
      make(head, 'th', { scope: 'colgroup', colspan: this.schedule.cells[buffer].length,
        class: `begins ${buffer.toLowerCase()}` }, buffer.toLowerCase());
  }

  row(body, rank) {
    const s = this.schedule, tr = make(body, 'tr', { 'data-rank': rank });
    const name = make(tr, 'th', { scope: 'row' }, rank), cells = {};
    name.style.setProperty('--own', hue(rank, s.n));
    for (const buffer of this.buffers) {
      const count = s.cellsOf(rank, buffer).length;
      cells[buffer] = s.cells[buffer].map((cell, i) => make(tr, 'td', {
        class: `${buffer.toLowerCase()} ${i ? '' : 'begins'} ${i < count ? '' : 'none'}`,
        style: s.hasNumbers ? `min-width: calc(${this.widthOf(buffer, cell)}ch + 0.8rem)` : '' }));
    }
    return { rank, tr, cells };
  }

  show(round) {
    const s = this.schedule;
    round = Math.min(round, s.rounds.length);
    for (const { rank, cells } of this.rows) {
      const state = s.states[round][rank];
      for (const buffer of this.buffers)
        state[buffer].forEach((value, i) => this.fill(cells[buffer][i], buffer, i, value, state));
    }
  }

  fill(td, buffer, i, value, state) {
    const s = this.schedule, { from, to } = s.cells[buffer][i];
    const numbers = s.hasNumbers ? state[buffer + '#'].slice(from / s.element, to / s.element) : [];
    const key = `${value}|${numbers}`;
    if (td.dataset.key === key) return;
    const fresh = td.dataset.key !== undefined;
    td.dataset.key = key;
    td.classList.toggle('whole', s.isWhole(value));
    td.style.backgroundImage = value < 0 ? 'none' : stripes(s, s.members[value], s.isWhole(value));
    td.title = `${buffer.toLowerCase()} ${from}…${to - 1}: ${this.whose(value)}`;
    td.textContent = '';
    if (numbers.length) this.write(make(td, 'div', {}), numbers);
    if (!numbers.length) make(td, 'span', { class: 'unseen' }, td.title);
    if (fresh) arrive(td);
  }

  whose(value) {
    const s = this.schedule, members = s.members[value];
    if (value < 0) return 'not written yet';
    return `${s.reduces && members.length > 1 ? 'sum of' : 'from'} ${ranksText(members, s.n)}`;
  }

  /* All numbers of a small cell, the first and the last of a larger one. */
  write(box, numbers) {
    const few = this.isFew(numbers.length);
    const text = (number) => (number === null ? '·' : number);
    box.className = few && numbers.length > 2 ? 'four' : '';
    if (few) for (const number of numbers) make(box, 'span', {}, text(number));
    else if (numbers.every((number) => number === null)) box.append('·');
    else box.append(`${text(numbers[0])} … ${text(numbers[numbers.length - 1])}`);
  }

  follow(rank) {
    for (const row of this.rows) row.tr.classList.toggle('followed', row.rank === rank);
  }
}
