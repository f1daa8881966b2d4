/* When what would happen, by a model of three numbers. A rank's round begins when its last one has
 * ended; there is no barrier. A message starts when both ends have begun the round and both ports
 * are free, and takes latency + bytes / bandwidth. Folds run beside messages of the same round. */
const FOLD = 1e-10; /* seconds a byte */

/* bars: {rank, round, kind: 'wire' | 'fold' | 'wait', from, to}; `scale` makes the data larger. */
function modelTime(schedule, latency, bandwidth, scale) {
  const n = schedule.n, ready = new Array(n).fill(0), bars = [];
  for (let round = 0; round < schedule.rounds.length; round++) {
    const out = ready.slice(), into = ready.slice(), end = ready.slice();
    const wire = ready.map(() => [Infinity, -Infinity]);
    const busy = (rank, from, to) => {
      wire[rank] = [Math.min(wire[rank][0], from), Math.max(wire[rank][1], to)];
      end[rank] = Math.max(end[rank], to);
    };
    for (const [rank, step] of schedule.sends(round)) {
      if (step.peer >= n) continue; // a defect
      const peer = step.peer, bytes = step.length * scale / bandwidth;
      const from = Math.max(out[rank], into[peer] === undefined ? 0 : into[peer]);
      out[rank] = into[peer] = from + bytes;
      busy(rank, from, from + bytes + latency);
      busy(peer, from, from + bytes + latency);
    }
    for (let rank = 0; rank < n; rank++) {
      let folds = 0;
      for (const step of schedule.rounds[round][rank])
        if (step.sources) folds += (step.sources.length + 1) * step.length * scale * FOLD;
      if (folds)
        bars.push({ rank, round, kind: 'fold', from: ready[rank], to: ready[rank] + folds });
      end[rank] = Math.max(end[rank], ready[rank] + folds);
      const [from, to] = wire[rank];
      if (to < from) continue;
      if (from > ready[rank] + folds)
        bars.push({ rank, round, kind: 'wait', from: ready[rank] + folds, to: from });
      bars.push({ rank, round, kind: 'wire', from, to });
    }
    for (let rank = 0; rank < n; rank++) ready[rank] = end[rank];
  }
  return { bars, total: Math.max(...ready, 1e-12) };
}
