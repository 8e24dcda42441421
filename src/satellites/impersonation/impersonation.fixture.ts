/** A tenancy with impersonation, and a record of changes that listens within their transactions. */

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
  /** In the order of their writes. */
  readonly entries: Recorded[] = []
  /** Error that a write throws, if set. */
  failure: Error | undefined
  /** Runs before the entry of a request is written, while its session is held. */
  onRequest: (() => void) | undefined

  of(...actions: string[]): Recorded[] {
    return this.entries.filter(({ action }) => actions.includes(action))
  }
}

const recorder = (record: Recording) =>
  defineSatellite({
    name: 'recorder',
    summary: 'Records changes for a test',
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

/** An active tenant, installed by this process, which has no workers. */
export async function anyTenant({ tenants }: Pick<Tenancy, 'tenants'>): Promise<string> {
  count += 1
  const { id } = await tenants.create({ id: `tenant-${count}`, name: `Tenant ${count}` })
  await tenants.installation.install(id, { isLast: true })
  return id
}

/** Holds a session as a request does, while `work` runs or until it releases the session. */
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
