/** Calls with an id of the caller: repeated calls have one effect, as entries of an outbox with one id. */
import { z } from 'zod'
import { parsed } from '../base/validate.ts'

interface Backoffice {
  transaction<T>(work: () => Promise<T>): Promise<T>
  sql(statement: string, values: readonly unknown[]): Promise<{ readonly rows: readonly unknown[] }>
}

export interface CallOptions {
  /** UUID. Of all calls for a tenant with one id, only the first has an effect, for 35 days. */
  readonly id?: string | undefined
}

/** In lower case, as PostgreSQL returns it. `E_INVALID_REQUEST` */
export const checkCallId = (id: string): string => parsed(z.uuid(), id, 'id').toLowerCase()

/** Runs work in a transaction of the backoffice. Undefined if a call of the tenant with this id has taken effect. `E_INVALID_REQUEST` */
export function once<T>(
  database: Backoffice,
  tenantId: string | null,
  id: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  const callId = checkCallId(id)
  return database.transaction(async () => {
    const { rows } = await database.sql(
      `insert into multitenancy.outbox_received (id, tenant_id, posted_at) values ($1, $2, now())
       on conflict do nothing returning true`,
      [callId, tenantId ?? ''],
    )
    return rows.length > 0 ? work() : undefined
  })
}
