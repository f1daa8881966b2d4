/* The page: one clock for all schedules on it. `round` rounds are over; `part` of the next one,
 * 0 … 1, is under way while the page plays. */
const $ = (id) => document.getElementById(id);

class Page {
  constructor(schedules) {
    this.schedules = schedules;
    this.rounds = Math.max(...schedules.map((s) => s.rounds.length));
    this.round = 0;
    this.part = 0;
    this.playing = false;
    this.followed = null;
    this.head();
  }

  build() {
    const schedules = this.schedules;
    this.stages = schedules.map((s) => this.stage(s));
    this.lanes = new Lanes(schedules, (round) => this.jump(round),
      (totals) => this.compare(totals));
    this.key();
    this.listen();
    this.show();
  }

  /* -- what stays -- */

  head() {
    const s = this.schedules[0], names = this.schedules.map((x) => x.algorithm).join(' and ');
    document.title = `${s.operation} by ${names}, ${s.n} ranks – Gyre`;
    const title = $('title');
    title.append(s.operation.replaceAll('_', '-'), ' ');
    make(title, 'span', {}, `by ${names.replaceAll('_', '-')}`);
    const many = (count, what) => `${count} ${what}${count === 1 ? '' : 's'}`;
    $('facts').textContent = [many(s.n, 'rank'), s.nodes > 1 ? `${s.nodes} nodes` : '',
      this.dataText(s, many),
      s.root === null ? '' : `root ${s.root}`, s.ending].filter(Boolean).join(' · ');
    const broken = this.schedules.find((x) => x.defect);
    $('defect').hidden = !broken;
    if (broken) $('defect').textContent = broken.defect;
    document.body.classList.toggle('beside', this.schedules.length > 1);
  }

  dataText(s, many) {
    const what = s.counts ? `blocks of ${s.counts.join(', ')} elements`
      : `${s.blocks ? 'blocks of ' : ''}${many(s.count, 'element')}`;
    return `${what} of ${many(s.element, 'byte')}`;
  }

  stage(schedule) {
    const box = make($('stages'), 'article', { class: 'stage', 'aria-label': schedule.algorithm });
    const circle = make(box, 'div', { class: 'picture' });
    const side = make(box, 'div', { class: 'side' });
    const head = make(side, 'div', { class: 'head' });
    make(head, 'h2', {}, schedule.algorithm.replaceAll('_', '-'));
    make(head, 'p', {}, schedule.summary);
    const list = make(side, 'dl', { class: 'stats' }), stat = (name, value) => {
      const item = make(list, 'div', {});
      make(item, 'dt', {}, name);
      return make(item, 'dd', {}, value);
    };
    stat('exchanges', schedule.exchanges);
    stat('rounds', schedule.rounds.length);
    stat('busiest rank sends', bytesText(schedule.busiest));
    const time = stat('time, by the model', '');
    const story = make(side, 'p', { class: 'story' });
    return { schedule, story, time, memory: new Memory(side, schedule),
      circle: new Circle(circle, schedule, (rank) => this.follow(rank)) };
  }

  key() {
    const s = this.schedules[0], box = $('key'), n = s.n;
    const item = (members, whole, text) => {
      const p = make(box, 'p', {});
      const svg = draw(p, 'svg', { viewBox: '-16 -16 32 32', 'aria-hidden': 'true' });
      pie(svg, s, members, whole, 12);
      make(p, 'span', {}, text);
    };
    const first = s.root || 0;
    item([first], false, s.reduces ? 'data of one rank' : `data of rank ${first}`);
    if (!s.reduces) return;
    item([0, 1].slice(0, n), false, 'a sum of two: two slots are lit');
    item(s.order, true, `all ${n} are in: complete`);
  }

  compare(totals) {
    const best = Math.min(...totals);
    this.stages.forEach((stage, i) => {
      stage.time.textContent = timeText(totals[i]);
      stage.time.classList.toggle('best', totals.length > 1 && totals[i] === best);
    });
  }

  /* -- the round -- */

  show(spoken = true) {
    this.told = -1;
    for (const stage of this.stages) {
      stage.circle.show(this.round);
      stage.memory.show(this.round);
      stage.story.textContent = this.story(stage.schedule);
    }
    this.lanes.show(this.round);
    $('round').max = this.rounds;
    $('round').value = this.round;
    $('round').style.setProperty('--done', `${100 * this.round / Math.max(1, this.rounds)}%`);
    $('count').textContent = `${this.round} / ${this.rounds}`;
    $('first').disabled = $('back').disabled = this.round === 0;
    $('last').disabled = $('on').disabled = this.round === this.rounds;
    if (spoken && !this.playing) $('said').textContent = `Round ${this.round} of ${this.rounds}. `
      + this.stages.map((stage) => stage.story.textContent).join(' ');
  }

  story(s) {
    if (this.followed !== null && this.round > 0 && this.round <= s.rounds.length) {
      const steps = s.rounds[this.round - 1][this.followed] || [];
      const did = steps.map((step) => s.stepText(step)).join(', ');
      return `Rank ${this.followed} ${did || 'waits'}.`;
    }
    if (this.round < s.rounds.length || s.rounds.length === 0) return s.story(this.round - 1);
    return s.defect ? s.defect : `${s.story(s.rounds.length - 1)} Now ${s.ending}.`;
  }

  jump(round) {
    this.round = Math.max(0, Math.min(this.rounds, round));
    this.part = 0;
    this.show();
  }

  /* One round on, with its motion. */
  step() {
    if (this.round === this.rounds) return;
    if (still.matches) return this.jump(this.round + 1);
    if (this.stepping) this.jump(this.round + 1);
    this.stepping = this.round < this.rounds;
    this.run();
  }

  play(on) {
    if (on && this.round === this.rounds) this.jump(0);
    this.playing = on;
    this.stepping = false;
    $('play').setAttribute('aria-label', on ? 'Pause' : 'Play');
    $('play').firstChild.textContent = on ? '❚❚' : '▶';
    document.body.classList.toggle('playing', on);
    if (on) this.run(); else this.show();
  }

  run() {
    if (this.running) return;
    this.running = true;
    this.last = performance.now();
    requestAnimationFrame((now) => this.frame(now));
  }

  /* Exchanges take longer than folds, which nobody waits for. */
  length() {
    const exchange = this.schedules.some((s) => s.phases[this.round]);
    return (still.matches ? 900 : exchange ? 1500 : 800) / Number($('speed').value);
  }

  frame(now) {
    this.running = this.playing || this.stepping;
    if (!this.running) return;
    this.part += Math.min(100, now - this.last) / this.length();
    this.last = now;
    if (this.part >= 1) this.arrive();
    else this.move();
    requestAnimationFrame((later) => this.frame(later));
  }

  /* The round under way, and its story. */
  move() {
    if (this.told !== this.round) for (const { schedule, story } of this.stages)
      if (this.followed === null && this.round < schedule.rounds.length)
        story.textContent = schedule.story(this.round);
    this.told = this.round;
    if (!still.matches) for (const stage of this.stages) stage.circle.move(this.round, this.part);
  }

  arrive() {
    this.round++;
    this.part = 0;
    this.stepping = false;
    this.show(!this.playing);
    if (this.playing && this.round >= this.rounds) this.play(false);
  }

  follow(rank) {
    const none = rank === this.followed || rank === null || rank >= this.schedules[0].n;
    this.followed = none ? null : rank;
    for (const stage of this.stages) {
      stage.circle.follow(this.followed);
      stage.memory.follow(this.followed);
      stage.story.textContent = this.story(stage.schedule);
    }
  }

  /* -- hands -- */

  listen() {
    const stop = (act) => () => {
      if (this.playing) this.play(false);
      this.stepping = false;
      act();
    };
    $('first').addEventListener('click', stop(() => this.jump(0)));
    $('back').addEventListener('click',
      stop(() => this.jump(this.part ? this.round : this.round - 1)));
    $('on').addEventListener('click', () => { if (this.playing) this.play(false); this.step(); });
    $('last').addEventListener('click', stop(() => this.jump(this.rounds)));
    $('play').addEventListener('click', () => this.play(!this.playing));
    $('round').addEventListener('input', stop(() => this.jump(Number($('round').value))));
    $('theme').addEventListener('click', (event) => turnTheme(event.currentTarget));
    document.addEventListener('keydown', (event) => this.press(event));
  }

  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target, typing = target.matches('input, select');
    const act = {
      ' ': () => target.matches('button, select, summary') ? null : $('play'),
      ArrowRight: () => typing ? null : $('on'),
      ArrowLeft: () => typing ? null : $('back'),
      Home: () => typing ? null : $('first'),
      End: () => typing ? null : $('last'),
      '+': () => $('zoom-in'),
      '=': () => $('zoom-in'),
      '-': () => $('zoom-out'),
    }[event.key];
    const button = act ? act() : null;
    if (button) { button.click(); event.preventDefault(); }
    else if (event.key === '[' || event.key === ']') this.pace(event.key === ']' ? 1 : -1);
    else if (/^[0-9]$/.test(event.key) && !target.matches('select')) this.follow(Number(event.key));
    else if (event.key === 'Escape') this.follow(null);
  }

  pace(by) {
    const select = $('speed');
    select.selectedIndex = Math.max(0, Math.min(select.length - 1, select.selectedIndex + by));
  }
}

/* The heading is painted first: the pictures take ten times as long. */
window.page = new Page(JSON.parse($('data').textContent).map((data) => new Schedule(data)));
requestAnimationFrame(() => setTimeout(() => window.page.build()));
