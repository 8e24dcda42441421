/** Diagnoses the store: whether it responds, and whether it keeps a value. */

import { DependencyUnavailable } from '../base/errors.ts'
import type { Store } from '../store/store.ts'
import type { Diagnosis, Finding } from './doctor.ts'

export const storeDiagnosis: Diagnosis<Store> = {
  name: 'store',
  summary: 'Whether the store answers, and keeps what it is given',
  examine,
}

async function* examine(store: Store): AsyncIterable<Finding> {
  try {
    const policy = await store.evictionPolicy?.()
    if (policy === undefined) return await store.ping()
    yield {
      severity: 'warn',
      code: 'store.evicts',
      message: `the store ${store.name} may drop what it keeps when its memory is full (maxmemory-policy ${policy}): a quota begins anew then, and a session ends`,
      remedy: 'Set maxmemory-policy to noeviction at the server, and watch its memory',
    }
  } catch (error) {
    if (!DependencyUnavailable.matches(error)) throw error
    yield {
      severity: 'error',
      code: 'store.away',
      message: `the store ${store.name} does not answer: policies decide over quotas, and browsers' sessions cannot be used`,
      remedy: 'See whether its server runs and can be reached from here; nothing has to be restarted afterwards',
    }
  }
}
