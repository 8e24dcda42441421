/** Diagnoses different settings of live processes: conflicts, and differences that outlast a deployment. */

import type { ListedProcess, Processes } from '../processes/processes.ts'
import { differencesBetween } from '../processes/settings.ts'
import type { Diagnosis, Finding } from './doctor.ts'

const DEPLOYMENT_MS = 15 * 60_000

export const processesDiagnosis: Diagnosis<Pick<Processes, 'list'>> = {
  name: 'processes',
  summary: 'Settings of live processes',
  async *examine(processes) {
    yield* settingsFindings(await processes.list(), Date.now())
  },
}

interface Differing {
  readonly names: Set<string>
  isConflict: boolean
}

/** One finding for each setting. @param now in ms */
export function* settingsFindings(all: readonly ListedProcess[], now: number): Iterable<Finding> {
  const live = all.filter(({ isLive }) => isLive)
  const bySetting = new Map<string, Differing>()
  for (const [index, one] of live.entries()) {
    for (const other of live.slice(index + 1)) {
      const youngest = Math.max(one.startedAt.getTime(), other.startedAt.getTime())
      for (const { setting, isConflict } of differencesBetween(one.settings, other.settings)) {
        if (!isConflict && now - youngest < DEPLOYMENT_MS) continue
        const differing = bySetting.get(setting) ?? { names: new Set(), isConflict: false }
        for (const { name, role } of [one, other]) differing.names.add(`${name} (${role})`)
        differing.isConflict ||= isConflict
        bySetting.set(setting, differing)
      }
    }
  }
  for (const [setting, { names, isConflict }] of bySetting) {
    yield {
      severity: isConflict ? 'error' : 'warn',
      code: 'processes.settings',
      message: `the setting ${setting} differs between running processes: ${[...names].join(', ')}`,
      remedy: 'Start all processes with the same definition. `tenantry processes` lists their differences.',
    }
  }
}
