/**
 * Stores the time from which each quota is billed. The first process that has the quota in its configuration writes it,
 * before it maps or reads a payer. Earlier usage is not billed.
 */
import type { BillingDependencies } from '../model/dependencies.ts'

export async function meteredSince(dependencies: BillingDependencies): Promise<ReadonlyMap<string, Date>> {
  const { database, clock } = dependencies.kernel
  const quotas = Object.keys(dependencies.settings.usage).sort()
  const noted = async (): Promise<Map<string, Date>> => {
    const { rows } = await database.sql(
      'select quota, since from multitenancy.billing_metered_quotas where quota = any($1)',
      [quotas],
    )
    return new Map(rows.map(({ quota, since }) => [quota, since]))
  }
  const present = await noted()
  if (present.size === quotas.length) return present
  await database.sql(
    `insert into multitenancy.billing_metered_quotas (quota, since) select quota, $2 from unnest($1::text[]) as quota order by quota
     on conflict do nothing`,
    [quotas, clock.now()],
  )
  return noted()
}
