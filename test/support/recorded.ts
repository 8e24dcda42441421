/** What a tenancy says about its tenants while a test looks: changes by their action, events by their name, in order. */
import { ChangeRecorded } from '../../src/kernel/events/changes.ts'
import type { EventOf } from '../../src/kernel/events/events.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import * as events from '../../src/tenants/tenant/events.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'

export interface Recorded {
  readonly changes: EventOf<typeof ChangeRecorded>[]
  readonly events: { readonly name: string; readonly tenantId: string; readonly [member: string]: unknown }[]
  /** Actions and events of one tenant since the last call, e.g. `['tenants.suspend', 'TenantSuspended']`. */
  of(tenantId: string): string[]
  /** The same, once `word` has been said: what a job did is in the database a moment before it is said here. */
  until(tenantId: string, word: string): Promise<string[]>
}

export function recorded({ on }: Pick<Tenancy, 'on'>): Recorded {
  const all: { tenantId: string | null; word: string }[] = []
  const recorded: Recorded = {
    changes: [],
    events: [],
    of(tenantId) {
      const words = all.filter((one) => one.tenantId === tenantId).map(({ word }) => word)
      all.splice(0, all.length, ...all.filter((one) => one.tenantId !== tenantId))
      return words
    },
    async until(tenantId, word) {
      await eventually(() => {
        if (!all.some((one) => one.tenantId === tenantId && one.word === word)) throw new Error(`no ${word} was heard`)
      })
      return recorded.of(tenantId)
    },
  }
  on(ChangeRecorded, (change) => {
    recorded.changes.push(change)
    all.push({ tenantId: change.tenantId, word: change.action })
  })
  for (const type of Object.values(events)) {
    on(type, (event) => {
      recorded.events.push({ name: type.name, ...event })
      all.push({ tenantId: event.tenantId, word: type.name })
    })
  }
  return recorded
}
