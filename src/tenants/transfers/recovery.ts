/**
 * What is left to do when something was killed: transfers that nobody is at work on and no job will bring back, storage that was
 * given up, archives of backups that were deleted, transfers that ended long ago. Any number of processes may do it at once.
 */
import { sql } from 'kysely'
import type { TenantTables } from '../tenant/tables.ts'
import type { Backups } from './backups/backups.ts'
import type { TransferDependencies } from './kinds/dependencies.ts'
import type { TransferRow } from './model/tables.ts'
import { JOBS } from './requests/job-types.ts'
import { failLost } from './runner.ts'

/** Longer than a job takes to be missed and sent again by the queue itself. */
const LOST_AFTER_SECONDS = 60
/** One that kills its process each time must come to an end, too. */
const MOST_ATTEMPTS = 10
/** Thousands may be waiting for their turn, which was seen to have a job: those come last in the next minute. */
const AT_ONCE = 200
const KEPT_FOR_DAYS = 90
const FORGOTTEN_AT_ONCE = 1_000

/** The job of every minute. What fails does not keep the rest from being done; the first failure is thrown afterwards. */
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
    .orderBy(({ eb }) => eb('state', '=', 'running'), 'desc') // one that was killed may keep its tenant closed
    .orderBy('leaseUntil')
    .limit(AT_ONCE)
    .execute()
}

/** What nothing depends on any more. Kept longer: transfers of backups that are there, and what a clone began with that has no storage yet. */
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
  log.warn({ transferId: id, tenantId, kind }, 'a transfer was lost; it is begun again')
  await jobs.send(JOBS[kind], { transferId: id }, { tenantId, key: id })
}
