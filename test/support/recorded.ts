/** Records what a tenancy publishes about its tenants: changes by action, events by name, in order. */
import { ChangeRecorded } from '../../src/kernel/events/changes.ts'
import type { EventOf } from '../../src/kernel/events/events.ts'
import type { Tenancy } from '../../src/tenancy/tenancy.ts'
import * as events from '../../src/tenants/tenant/events.ts'
import { eventually } from '../../src/testing/base/tenancy.ts'

export interface Recorded {
  readonly changes: EventOf<typeof ChangeRecorded>[]
  readonly events: { readonly name: string; readonly tenantId: string; readonly [member: string]: unknown }[]
  /** Actions and events of one tenant since the last call, such as `['tenants.suspend', 'TenantSuspended']`. */
  of(tenantId: string): string[]
  /**
   * Waits for `word`, then returns the same: the effect of a job is in the database slightly before its event is
   * published.
   */
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
        if (!all.some((one) => one.tenantId === tenantId && one.word === word))
          throw new Error(`${word} was not published`)
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
