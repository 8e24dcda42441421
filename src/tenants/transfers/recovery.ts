/**
 * Cleans up after killed processes: retries transfers without an attempt and a job, drops abandoned storage, removes
 * archives of deleted backups, and deletes old transfers. Safe in several processes.
 */
import { sql } from 'kysely'
import type { TenantTables } from '../tenant/tables.ts'
import type { Backups } from './backups/backups.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import type { TransferRow } from './model/tables.ts'
import { JOBS } from './requests/job-types.ts'
import { failLost } from './runner.ts'

/** Longer than the queue needs to detect and repeat a lost job. */
const LOST_AFTER_SECONDS = 60
/** Also ends a transfer that kills its process each time. */
const MOST_ATTEMPTS = 10
/** Thousands may be waiting with a job. The next minute checks them last. */
const AT_ONCE = 200
const KEPT_FOR_DAYS = 90
const FORGOTTEN_AT_ONCE = 1_000

/** The job of every minute. A failure does not prevent later steps; throws the first one at the end. */
export async function recover(
  dependencies: TransferDependencies,
  backups: Pick<Backups, 'removeDeleted'>,
): Promise<void> {
  const failures: unknown[] = []
  const tried = async (what: () => Promise<unknown>) => {
    try {
      await what()
    } catch (error) {
      failures.push(error)
    }
  }
  for (const transfer of await lost(dependencies)) await tried(() => takeUp(dependencies, transfer))
  await tried(() => dependencies.stagedStorage.abandonExpired())
  await tried(() => dependencies.stagedStorage.drop())
  await tried(() => backups.removeDeleted())
  await tried(() => forgetOld(dependencies))
  if (failures.length > 0) throw failures[0]
}

function lost({ kernel }: TransferDependencies): Promise<TransferRow[]> {
  return kernel.database
    .query<TenantTables>()
    .selectFrom('transfers')
    .selectAll()
    .where('state', 'in', ['pending', 'running'])
    .where('leaseUntil', '<', sql<Date>`now() - ${LOST_AFTER_SECONDS} * interval '1 second'`)
    .orderBy(({ eb }) => eb('state', '=', 'running'), 'desc') // a killed transfer may keep its tenant closed
    .orderBy('leaseUntil')
    .limit(AT_ONCE)
    .execute()
}

/** Deletes old transfers. Keeps those of existing backups, and clone requests of tenants without storage. */
function forgetOld({ kernel }: TransferDependencies): Promise<unknown> {
  return kernel.database.sql(
    `delete from multitenancy.transfers where id in (
       select old.id from multitenancy.transfers old
       where old.finished_at < now() - $1 * interval '1 day'
         and not exists (select from multitenancy.backups where backups.id = old.id)
         and not exists (select from multitenancy.tenants where tenants.id = old.tenant_id and cloned_from is not null)
       order by old.finished_at limit $2)`,
    [KEPT_FOR_DAYS, FORGOTTEN_AT_ONCE],
  )
}

async function takeUp(
  dependencies: TransferDependencies,
  { id, kind, tenantId, attempts }: TransferRow,
): Promise<void> {
  const { jobs, log, database } = dependencies.kernel
  if (await jobs.isPending(JOBS[kind], id)) {
    await database.sql(
      `update multitenancy.transfers set lease_until = now() where id = $1 and lease_until < now() and state in ('pending', 'running')`,
      [id],
    )
    return
  }
  if (attempts >= MOST_ATTEMPTS) return failLost(dependencies, id)
  log.warn({ transferId: id, tenantId, kind }, 'lost transfer restarted')
  await jobs.send(JOBS[kind], { transferId: id }, { tenantId, key: id })
}
