/** Diagnoses the store: whether it responds, and whether it keeps a value. */

import { DependencyUnavailable } from '../base/errors.ts'
import type { Store } from '../store/store.ts'
import type { Diagnosis, Finding } from './doctor.ts'

export const storeDiagnosis: Diagnosis<Store> = {
  name: 'store',
  summary: 'Availability of the store, and its eviction policy',
  examine,
}

async function* examine(store: Store): AsyncIterable<Finding> {
  try {
    const policy = await store.evictionPolicy?.()
    if (policy === undefined) return await store.ping()
    yield {
      severity: 'warn',
      code: 'store.evicts',
      message: `the store ${store.name} may evict keys when its memory is full (maxmemory-policy ${policy}): quotas would start again, and sessions would end`,
      remedy: 'Set maxmemory-policy to noeviction at the server, and watch its memory',
    }
  } catch (error) {
    if (!DependencyUnavailable.matches(error)) throw error
    yield {
      severity: 'error',
      code: 'store.away',
      message: `the store ${store.name} does not respond: policies decide over quotas, and browser sessions are unusable`,
      remedy: 'Check that its server runs and is reachable; no restart is needed afterwards',
    }
  }
}
