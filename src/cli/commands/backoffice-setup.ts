/**
 * Runs `tenantry backoffice:setup`: prepares the backoffice database before the first start of the service.
 * - Opening a tenancy creates everything. This command reports the migrations of its run, the logins and the queues.
 */
import { sql } from 'kysely'
import { catalogueOf } from '../../service/catalogue.ts'
import { satellitesOn } from '../../service/main.ts'
import type { TenantTables } from '../../tenants/tenant/tables.ts'
import type { OwnInput } from '../parser/own-input.ts'
import { withTenancy } from './with-tenancy.ts'

interface Tables extends TenantTables {
  migrations: { part: string; name: string; appliedAt: Date }
}

export async function setUpBackoffice(input: OwnInput): Promise<void> {
  const started = performance.now()
  await withTenancy(input, { keepsTables: false }, async ({ kernel }) => {
    const db = kernel.database.query<Tables>()
    // A duration instead of a start time: the clocks of this machine and the server may differ.
    const elapsedMs = performance.now() - started
    const migrations = await db
      .selectFrom('migrations')
      .select(['part', 'name'])
      .where('appliedAt', '>=', sql<Date>`now() - ${elapsedMs} * interval '1 millisecond'`)
      .orderBy('appliedAt')
      .execute()
    const logins = await db.selectFrom('placementLogins').select(['placement', 'login']).orderBy('placement').execute()
    const { jobs } = catalogueOf(satellitesOn(await input.loadConfig()))
    if (migrations.length === 0) input.terminal.say('no pending migrations')
    input.terminal.record({
      migrated: migrations.map(({ part, name }) => `${part}/${name}`),
      logins: Object.fromEntries(logins.map(({ placement, login }) => [placement, login])),
      queues: jobs.map(({ name }) => `tenantry.${name}`),
    })
  })
}
