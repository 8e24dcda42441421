/**
 * Diagnoses differences between the clocks of this process, the backoffice database and a store server. A server's time is compared
 * with the middle of its round trip, so differences up to half of the round trip are ignored.
 */

import { DependencyUnavailable } from '../base/errors.ts'
import type { Database } from '../database/database.ts'
import type { Store } from '../store/store.ts'
import type { Diagnosis, Finding } from './doctor.ts'

const WARN_MS = 1_000
const ERROR_MS = 30_000
const SAMPLES = 3

/** Offset of a clock from that of this process, with its uncertainty. */
export interface Offset {
  readonly ms: number
  readonly withinMs: number
}

export const clocksDiagnosis: Diagnosis<{ readonly database: Database; readonly store: Store }> = {
  name: 'clocks',
  summary: 'Clocks of this process, the backoffice database and the store',
  async *examine({ database, store }) {
    const [ofDatabase = SAME] = await offsets(async () => {
      const { rows } = await database.sql('select extract(epoch from clock_timestamp())::float8 * 1000 as ms')
      return [rows[0].ms]
    })
    const ofStore = store.times ? await offsets(() => store.times?.() ?? []).catch(unlessUnavailable) : []
    yield* clockFindings(ofDatabase, ofStore)
  },
}

export function* clockFindings(ofDatabase: Offset, ofStore: readonly Offset[]): Iterable<Finding> {
  const process = { ms: -ofDatabase.ms, withinMs: ofDatabase.withinMs }
  if (certainMs(process) >= WARN_MS) {
    yield {
      severity: severityOf(process),
      code: 'clocks.process',
      message: `the clock of this process is ${describeOffset(process)} that of the backoffice database`,
      remedy:
        'Set the clocks of both machines by the same source (NTP), that of this process first. Signatures, sessions and schedules are ' +
        'judged by it, and are wrong by that much.',
    }
  }
  const worst = ofStore
    .map(({ ms, withinMs }) => ({ ms: ms - ofDatabase.ms, withinMs: withinMs + ofDatabase.withinMs }))
    .reduce((a, b) => (certainMs(b) > certainMs(a) ? b : a), SAME)
  if (certainMs(worst) >= WARN_MS) {
    yield {
      severity: severityOf(worst),
      code: 'clocks.store',
      message: `the clock of the store is ${describeOffset(worst)} that of the backoffice database`,
      remedy:
        'Set the clocks of both machines by the same source (NTP). By that of the store it is decided which day a quota counts into, ' +
        'and when what it keeps expires.',
    }
  }
}

const SAME: Offset = { ms: 0, withinMs: 0 }

const certainMs = ({ ms, withinMs }: Offset): number => Math.max(Math.abs(ms) - withinMs, 0)
const severityOf = (offset: Offset) => (certainMs(offset) >= ERROR_MS ? 'error' : 'warn')
const describeOffset = ({ ms }: Offset): string =>
  `${(Math.abs(ms) / 1_000).toFixed(1)} s ${ms > 0 ? 'ahead of' : 'behind'}`

/** Uses the attempt with the shortest round trip, by the clock of the machine and not by the kernel's. */
async function offsets(readClocks: () => Promise<readonly number[]> | readonly number[]): Promise<Offset[]> {
  let best: Offset[] = []
  for (let sample = 0; sample < SAMPLES; sample++) {
    const requestedAt = Date.now()
    const started = performance.now()
    const times = await readClocks()
    const withinMs = (performance.now() - started) / 2
    if (withinMs < (best[0]?.withinMs ?? Number.POSITIVE_INFINITY)) {
      best = times.map((time) => ({ ms: time - (requestedAt + withinMs), withinMs }))
    }
  }
  return best
}

/** The store's own diagnosis reports that it is unavailable. */
function unlessUnavailable(error: unknown): Offset[] {
  if (!DependencyUnavailable.matches(error)) throw error
  return []
}
