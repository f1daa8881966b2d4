/* Colours and small shapes. A rank has a hue; a sum has a slot for each rank, lit in its hue where
 * the rank is in the sum. The place of the slot says the same as its hue, so nobody has to tell
 * sixteen hues apart. When all are in, the slots fuse: to white light in the dark, to black ink on
 * paper. */
const SLOTS_MAX = 16; /* ranks whose slots are drawn; of more, only how many there are */

function hue(rank, n) {
  if (n <= 8) return `var(--rank${rank})`;
  const light = rank % 2 ? 'var(--light-odd)' : 'var(--light-even)';
  return `oklch(${light} 0.14 ${Math.round(25 + rank * 360 / n)})`;
}

const SVG = 'http://www.w3.org/2000/svg';

function draw(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

function make(parent, name, attributes, text) {
  const element = document.createElement(name);
  for (const key in attributes) element.setAttribute(key, attributes[key]);
  if (text !== undefined) element.textContent = text;
  if (parent) parent.appendChild(element);
  return element;
}

/* The next theme: dark, light, as the system has it. The button tells which it is. */
function turnTheme(button) {
  const root = document.documentElement;
  const next = { '': 'dark', dark: 'light', light: '' }[root.dataset.theme || ''];
  if (next) root.dataset.theme = next; else delete root.dataset.theme;
  button.setAttribute('aria-label', `Colours: ${next || 'as the system has them'}`);
  button.textContent = { '': '◐', dark: '●', light: '○' }[next];
}

/* Something new fades in. */
const still = matchMedia('(prefers-reduced-motion: reduce)');

function arrive(element) {
  if (!still.matches) element.animate([{ opacity: 0.05 }, { opacity: 1 }], 600);
}

const point = (r, a) => [r * Math.sin(a), -r * Math.cos(a)]; /* angles turn clockwise from noon */
const fixed = (x) => x.toFixed(1);

/* A piece of a ring. */
function sector(r0, r1, a0, a1) {
  const large = a1 - a0 > Math.PI ? 1 : 0, p = (r, a) => point(r, a).map(fixed).join(' ');
  return `M${p(r1, a0)}A${r1} ${r1} 0 ${large} 1 ${p(r1, a1)}L${p(r0, a1)}`
    + `A${r0} ${r0} 0 ${large} 0 ${p(r0, a0)}Z`;
}

/* [first slot, slots, fill] of what is lit in a set. */
function lit(schedule, members, whole) {
  const n = schedule.n;
  if (whole) return [[0, n, 'var(--whole)']];
  if (!schedule.reduces && members.length === 1) return [[0, n, hue(members[0], n)]];
  if (n > SLOTS_MAX) return [[0, members.length, 'var(--part)']];
  return members.map((r) => [r, 1, hue(r, n)]);
}

/* A message: a small pie whose slices are the ranks in it. */
function pie(parent, schedule, members, whole, radius) {
  const g = draw(parent, 'g', { class: 'pie' }), n = schedule.n, turn = 2 * Math.PI / n;
  draw(g, 'circle', { r: radius + 2.5, class: 'pie-ground' });
  for (const [slot, slots, fill] of lit(schedule, members, whole)) {
    if (slots === n) draw(g, 'circle', { r: radius, fill });
    else {
      const a = point(radius, slot * turn), b = point(radius, (slot + slots) * turn);
      const arc = `A${radius} ${radius} 0 ${slots * 2 > n ? 1 : 0} 1`;
      draw(g, 'path', { fill, d: `M0 0L${a.map(fixed)}${arc} ${b.map(fixed)}Z` });
    }
  }
  draw(g, 'circle', { r: radius, class: 'pie-rim' });
  return g;
}

/* The same as the background of a cell of the table. */
function stripes(schedule, members, whole) {
  const n = schedule.n, stops = [];
  let at = 0;
  const percent = (slot) => `${(100 * slot / n).toFixed(2)}%`;
  const add = (from, to, fill) => stops.push(`${fill} ${percent(from)} ${percent(to)}`);
  for (const [slot, slots, fill] of lit(schedule, members, whole)) {
    if (slot > at) add(at, slot, 'var(--empty)');
    add(slot, slot + slots, fill);
    at = slot + slots;
  }
  if (at < n) add(at, n, 'var(--empty)');
  return `linear-gradient(90deg, ${stops.join(', ')})`;
}
