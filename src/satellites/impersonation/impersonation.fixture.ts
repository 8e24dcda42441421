/** A tenancy with impersonation, and a host's own record of changes, which hears them in their transactions. */

import { type Actor, currentContext } from '../../kernel/base/context.ts'
import { ChangeRecorded } from '../../kernel/events/changes.ts'
import { on } from '../../kernel/events/events.ts'
import { defineSatellite } from '../../tenancy/satellite.ts'
import type { Tenancy, TenancyConfig } from '../../tenancy/tenancy.ts'
import { type FakeClock, fakeClock } from '../../testing/base/clock.ts'
import { type TestTenancy, testTenancy } from '../../testing/base/tenancy.ts'
import { type ImpersonationOptions, impersonation } from './index.ts'
import { lockOf } from './sessions.ts'

export interface Recorded {
  readonly action: string
  readonly tenantId: string | null
  readonly target: string
  readonly before: Record<string, unknown> | null
  readonly after: Record<string, unknown> | null
  readonly actor: Actor
}

export class Recording {
  /** In the order in which they were written. */
  readonly entries: Recorded[] = []
  /** What it throws in place of writing, when it is set. */
  failure: Error | undefined
  /** What it does before it writes the entry of a request, whose session is held then. */
  onRequest: (() => void) | undefined

  of(...actions: string[]): Recorded[] {
    return this.entries.filter(({ action }) => actions.includes(action))
  }
}

const recorder = (record: Recording) =>
  defineSatellite({
    name: 'recorder',
    summary: 'What was changed, for a test to look at',
    service: () => record,
    listeners: [
      on(ChangeRecorded, 'within', (_, { action, tenantId, target, before, after }) => {
        if (record.failure && action === 'impersonations.request') throw record.failure
        if (action === 'impersonations.request') record.onRequest?.()
        const { actor } = currentContext()
        record.entries.push({ action, tenantId, target, before, after, actor })
      }),
    ],
  })

export type ImpersonationSatellites = [ReturnType<typeof impersonation>, ReturnType<typeof recorder>]
export type ImpersonationTenancy = Tenancy<ImpersonationSatellites>

export interface OpenedImpersonation {
  readonly opened: TestTenancy<ImpersonationSatellites>
  readonly tenancy: ImpersonationTenancy
  readonly record: Recording
  readonly clock: FakeClock
}

export async function openImpersonation(
  postgresUrl: string,
  options: ImpersonationOptions = {},
  config: Partial<TenancyConfig<ImpersonationSatellites>> = {},
): Promise<OpenedImpersonation> {
  const record = new Recording()
  const clock = fakeClock()
  const opened = await testTenancy<ImpersonationSatellites>(postgresUrl, {
    satellites: [impersonation(options), recorder(record)],
    role: 'api',
    clock,
    ...config,
  })
  return { opened, tenancy: opened.tenancy, record, clock }
}

let count = 0

/** An active tenant, installed by this process: it has no workers. */
export async function anyTenant({ tenants }: Pick<Tenancy, 'tenants'>): Promise<string> {
  count += 1
  const { id } = await tenants.create({ id: `tenant-${count}`, name: `Tenant ${count}` })
  await tenants.installation.install(id, { isLast: true })
  return id
}

/** Holds a session as a request does, for as long as `work` runs or until it releases it. */
export const holding = (
  tenancy: ImpersonationTenancy,
  sessionId: string,
  work: (release: () => Promise<unknown>) => Promise<void>,
) =>
  tenancy.kernel.database.session(async (holder) => {
    await holder.query('begin')
    const hold = `select pg_advisory_xact_lock_shared(${lockOf('token_hash')}) from multitenancy.impersonations where id = $1`
    await holder.query(hold, [sessionId])
    await work(() => holder.query('rollback'))
  })
